"""Names of PyTorch that are missing, what is said of them, and those that exist for imports only."""

# Names of PyTorch that are missing: a name or its first parts -> what to use.  The longest entry that fits is
# said.  tests/python/differences.py copies the table to docs/differences.md.
MISSING = {
    "torch": "no part of chainrule has this name; docs/differences.md lists what is missing",
    "torch.fft": "complex numbers come later; use numpy.fft on x.numpy() for values without gradients",
    "torch.stft": "complex numbers come later; use scipy.signal on x.numpy() for values without gradients",
    "torch.istft": "complex numbers come later; use scipy.signal on x.numpy() for values without gradients",
    "torch.complex": "complex numbers come later; keep the real and the imaginary part in two tensors",
    "torch.view_as_complex": "complex numbers come later; write (a + bi)(c + di) as (ac - bd, ad + bc)",
    "torch.view_as_real": "complex numbers come later; keep the real and the imaginary part on a last axis of size 2",
    "torch.polar": "complex numbers come later; use r * cos(angle) and r * sin(angle)",
    "torch.sparse": "tensors are dense; use the function of this name in torch",
    "torch.sparse_csr_tensor": "tensors are dense; use index_add, scatter_add or embedding",
    "torch.nested": "tensors have one shape; pad them with torch.nn.utils.rnn.pad_sequence",
    "torch.jagged": "tensors have one shape; pad them with torch.nn.utils.rnn.pad_sequence",
    "torch.lstsq": "PyTorch dropped it too; use torch.linalg.lstsq(A, B), whose arguments are the other way round",
    "torch.solve": "PyTorch dropped it too; use torch.linalg.solve(A, B), whose arguments are the other way round",
    "torch.symeig": "PyTorch dropped it too; use torch.linalg.eigh or eigvalsh, which read the lower triangle",
    "torch.eig": "PyTorch dropped it too; use torch.linalg.eig or eigvals",
    "torch.matrix_rank": "PyTorch dropped it too; use torch.linalg.matrix_rank, whose symmetric is called hermitian",
    "torch.linalg": "this matrix decomposition is missing; use numpy.linalg or scipy.linalg on x.numpy() for values",
    "torch.imag": "complex numbers come later: the imaginary part is 0",
    "torch.special": "no part of chainrule has this function; use scipy.special on x.numpy() for values",
    "torch.distributions": "no part of chainrule has this distribution; write its log_prob with tensor functions",
    "torch.distributed": "there are the collectives of all processes; see chainrule.distributed",
    "torch.distributed.fsdp": "weights are not sharded; use DistributedDataParallel and ZeroRedundancyOptimizer",
    "torch.distributed.rpc": "processes share collectives only; use multiprocessing",
    "torch.distributed.tensor": "tensors are not sharded; use the tensor as it is",
    "torch.distributed.checkpoint": "use torch.save on rank 0 and torch.load",
    "torch.distributed.optim": "processes share collectives only; use ZeroRedundancyOptimizer",
    "torch.fx": "there is no symbolic trace; x.grad_fn and chainrule.viz show the graph of a call",
    "torch.onnx": "models are not exported; torch.save(model.state_dict(), path) writes the weights",
    "torch.export": "models are not exported; torch.save(model.state_dict(), path) writes the weights",
    "torch.quantization": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch.ao": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch._scaled_mm": "there are no 8-bit floats; use mm in bfloat16",
    "torch.library": "ops are not registered by name; use torch.autograd.Function",
    "torch.ops": "ops are not registered by name; use torch.autograd.Function",
    "torch.classes": "C++ extensions of PyTorch cannot be loaded; use torch.autograd.Function",
    "torch.utils.cpp_extension": (
        "C++ extensions of PyTorch cannot be loaded; write the op in Python with torch.autograd.Function, or in C with"
        " chainrule.h"
    ),
    "torch.utils.file_baton": "C++ extensions of PyTorch cannot be loaded",
    "torch.utils.data": "chainrule.data has no such part; use Dataset and DataLoader",
    "torch.utils.tensorboard": "install tensorboardX",
    "torch.utils.tensorboard._pytorch_graph": "graphs of models are not written; chainrule.viz draws them",
    "torch.futures": "use concurrent.futures",
    "torch.Future": "use concurrent.futures.Future",
    "torch._dynamo": "torch.compile records a step as chainrule.compile does, and has nothing to configure",
    "torch._inductor": "torch.compile records a step as chainrule.compile does, and has nothing to configure",
    "torch.cuda": "the device has no such control; torch.cuda.synchronize waits for it",
    "torch.cuda.nccl": "MPI carries the bytes; use torch.distributed",
    "torch.nn.attention.flex_attention": "use torch.nn.functional.scaled_dot_product_attention with attn_mask",
    "torch.nn.quantized": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch.Tensor.q_scale": "there are no quantized dtypes",
    "torch.Tensor.reinforce": "PyTorch dropped it too; use torch.distributions and -log_prob * reward",
    "torch.Tensor.imag": "complex numbers come later: the imaginary part is 0",
    "torch._C": "parts inside PyTorch do not exist; use the public function",
    "torch._dynamo.OptimizedModule": "torch.compile returns a module of a class that is not public",
    "torch._subclasses": "there are no fake tensors; use shapes",
    "torch.ScriptModule": "functions and modules run as they are; use torch.nn.Module",
    "torch.PyTorchFileReader": "use torch.load",
    "torch.cuda.CUDAGraph": "use torch.compile, which records a step and replays it",
    "torch.cuda.graph": "use torch.compile, which records a step and replays it",
    "torch.cuda.make_graphed_callables": "use torch.compile, which records a step and replays it",
    "torch.autograd.profiler.EventList": "there are no tables; use export_chrome_trace",
    "torch.overrides.TorchFunctionMode": "functions are not intercepted; call your function in their place",
    "torch.overrides.TorchDispatchMode": "functions are not intercepted; call your function in their place",
    "torch.utils._python_dispatch": "functions are not intercepted; call your function in their place",
    "torch.utils.flop_counter": "flops are not counted; count 2 for each multiply-add of the shapes",
    "torch.utils.data.datapipes": "use Dataset, IterableDataset and DataLoader",
    "torchvision": "this part is not in chainrule.vision; write it with tensor functions, or read files with Pillow",
}

# dtypes that no tensor has: the size of one element, and what to use.
DTYPES: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("complex32", "chalf"), (4, "complex numbers come later; keep two tensors, real and imaginary")),
    **dict.fromkeys(("complex64", "cfloat"), (8, "complex numbers come later; keep two tensors, real and imaginary")),
    **dict.fromkeys(
        ("complex128", "cdouble"), (16, "complex numbers come later; keep two tensors, real and imaginary")
    ),
    **dict.fromkeys(
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2".split(),
        (1, "there are no floats of 8 or 4 bits; use bfloat16"),
    ),
    "uint16": (2, "use int32"),
    "uint32": (4, "use int64"),
    "uint64": (8, "use int64"),
    **dict.fromkeys("qint8 quint8 quint4x2 quint2x4".split(), (1, "there are no quantized dtypes; use bfloat16")),
    "qint32": (4, "there are no quantized dtypes; use bfloat16"),
    **{f"{sign}int{n}": (1, "use int8") for sign in ("", "u") for n in range(1, 8)},
}
ALIASES = {"chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128"}

# Names that exist for imports only; "x.*": x is a module, and so is everything below it.
IMPORT_ONLY = set(
    """
torch.complex torch.polar torch.view_as_complex torch.view_as_real torch.stft torch.istft torch.imag torch.angle
torch.lstsq torch.solve torch.symeig torch.eig torch.matrix_rank
torch._scaled_mm torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.fftfreq torch.fft.fftshift torch.fft.hfft
torch.fft.hfft2 torch.fft.hfftn torch.fft.ifft torch.fft.ifft2 torch.fft.ifftn torch.fft.ifftshift torch.fft.ihfft
torch.fft.ihfft2 torch.fft.ihfftn torch.fft.irfft torch.fft.irfft2 torch.fft.irfftn torch.fft.rfft torch.fft.rfft2
torch.fft.rfftn torch.fft.rfftfreq torch.Future
torch.PyTorchFileReader torch.PyTorchFileWriter torch.ScriptFunction torch.ScriptObject torch.SymBool torch.SymFloat
torch.SymInt torch.Argument torch.FunctionSchema torch.DispatchKey torch.TypedStorage torch._C.* torch._dynamo.*
torch._export.* torch._functorch.* torch._guards.* torch._higher_order_ops.* torch._inductor.* torch._jit_internal.*
torch._library.* torch._logging.* torch._ops.* torch._prims.* torch._prims_common.* torch._refs.* torch._subclasses.*
torch._tensor_str.* torch._weights_only_unpickler.* torch._appdirs.* torch._classes.* torch._compile.*
torch._custom_ops.* torch._linalg_utils.* torch._lobpcg.* torch._lowrank.* torch._meta_registrations.* torch._numpy.*
torch._utils_internal.* torch._vmap_internals.* torch._VF.* torch.accelerator.graphs.* torch.accelerator.memory.*
torch.ao.* torch.autograd.forward_ad.* torch.autograd.profiler.* torch.autograd.profiler_legacy.*
torch.autograd.profiler_util.* torch.autograd.save_on_cpu torch.backends.cpu.* torch.backends.cusparselt.*
torch.backends.kleidiai.* torch.backends.mha.* torch.backends.miopen.* torch.backends.nnpack.*
torch.backends.opt_einsum.* torch.backends.quantized.* torch.backends.xeon.* torch.backends.xnnpack.* torch.classes.*
torch.compiler.config.* torch.contrib.* torch.cpu.* torch.cuda._memory_viz.* torch.cuda._sanitizer.*
torch.cuda._utils.* torch.cuda.comm.* torch.cuda.gds.* torch.cuda.green_contexts.* torch.cuda.jiterator.*
torch.cuda.profiler.* torch.cuda.sparse.* torch.distributed._composable_state.*
torch.distributed._functional_collectives_impl.* torch.distributed._state_dict_utils.*
torch.distributed.argparse_util.* torch.distributed.c10d_logger.* torch.distributed.collective_utils.*
torch.distributed.config.* torch.distributed.launch.* torch.distributed.logging_handlers.*
torch.distributed.optim.apply_optimizer_in_backward.* torch.distributed.optim.named_optimizer.*
torch.distributed.optim.optimizer.* torch.distributed.optim.post_localSGD_optimizer.* torch.distributed.optim.utils.*
torch.distributed.remote_device.* torch.distributed.rendezvous.* torch.jit._async.* torch.jit._builtins.*
torch.jit._check.* torch.jit._freeze.* torch.jit._fuser.* torch.jit._ir_utils.* torch.jit._logging.*
torch.jit._passes.* torch.jit._pickle.* torch.jit._recursive.* torch.jit._serialization.* torch.jit.quantized.*
torch.jit.supported_ops.* torch.mps.event.* torch.mps.profiler.* torch.multiprocessing._atfork.* torch.nativert.*
torch.nn._reduction.* torch.nn.attention._utils.* torch.nn.attention.experimental.* torch.nn.backends.*
torch.nn.common_types.* torch.nn.cpp.* torch.nn.modules._functions.* torch.nn.parallel._functions.*
torch.nn.parallel.comm.* torch.nn.parallel.parallel_apply.* torch.nn.parallel.replicate.*
torch.nn.parallel.scatter_gather.* torch.nn.utils._expanded_weights.* torch.nn.utils._named_member_accessor.*
torch.nn.utils._per_sample_grad.* torch.nn.utils.memory_format.* torch.numa.* torch.optim._functional.*
torch.optim._multi_tensor.* torch.profiler._memory_profiler.* torch.profiler._pattern_matcher.*
torch.profiler._utils.* torch.profiler.python_tracer.* torch.quasirandom.* torch.return_types.* torch.signal.*
torch.sparse.semi_structured.* torch.utils._config_module.* torch.utils._contextlib.* torch.utils._cxx_pytree.*
torch.utils._device.* torch.utils._foreach_utils.* torch.utils._import_utils.* torch.utils._mode_utils.*
torch.utils._stats.* torch.utils._traceback.* torch.utils._typing_utils.* torch.utils._zip.* torch.utils.backcompat.*
torch.utils.backend_registration.* torch.utils.collect_env.* torch.utils.data._utils.fetch.*
torch.utils.data._utils.pin_memory.* torch.utils.data._utils.signal_handling.*
torch.utils.data.backward_compatibility.* torch.utils.deterministic.* torch.utils.file_baton.* torch.utils.hipify.*
torch.utils.jit.* torch.utils.mkldnn.* torch.utils.model_dump.* torch.utils.serialization.* torch.utils.show_pickle.*
torch.utils.tensorboard._convert_np.* torch.utils.tensorboard._utils.* torch.utils.throughput_benchmark.*
torch.utils.viz.* torch.cuda.CUDAGraph torch.cuda.graph torch.cuda.graph_pool_handle torch.cuda.graphs.*
torch.cuda.make_graphed_callables torch.cuda.MemPool torch.cuda.StreamContext torch.cuda.ExternalStream
torch.cuda.use_mem_pool torch.cuda._compile_kernel torch.cuda.nccl.* torch.cuda.tunable.* torch.distributed.GradBucket
torch.distributed.P2POp torch.distributed.Store torch.distributed.TCPStore torch.distributed.FileStore
torch.distributed.HashStore torch.distributed.PrefixStore torch.distributed.Work torch.distributed._composable.*
torch.distributed._functional_collectives.* torch.distributed._shard.* torch.distributed._sharded_tensor.*
torch.distributed._symmetric_memory.* torch.distributed._tensor.* torch.distributed._tools.*
torch.distributed.algorithms.* torch.distributed.autograd.* torch.distributed.checkpoint.*
torch.distributed.device_mesh.* torch.distributed.DeviceMesh torch.distributed.init_device_mesh
torch.distributed.elastic.* torch.distributed.fsdp.* torch.distributed.launcher.* torch.distributed.nn.*
torch.distributed.optim.DistributedOptimizer torch.distributed.optim.PostLocalSGDOptimizer
torch.distributed.pipelining.* torch.distributed.rpc.* torch.distributed.run.* torch.distributed.tensor.*
torch.distributed.utils.* torch.export.* torch.futures.* torch.fx.* torch.jit.RecursiveScriptModule
torch.jit.ScriptFunction torch.jit.TracerWarning torch.jit.TracedModule torch.jit._script.* torch.jit._state.*
torch.jit._trace.* torch.jit.annotations.* torch.jit.frontend.* torch.jit.mobile.* torch.library.* torch.masked.*
torch.monitor.* torch.mtia.* torch.nested.* torch.nn.attention.bias.* torch.nn.attention.flex_attention.*
torch.nn.attention.varlen.* torch.nn.intrinsic.* torch.nn.qat.* torch.nn.quantizable.* torch.nn.quantized.*
torch.onnx.* torch.ops.* torch.package.* torch.quantization.* torch.overrides.TorchFunctionMode
torch.overrides.BaseTorchFunctionMode torch.profiler.itt.* torch.profiler.profiler.*
torch.serialization.LoadEndianness torch.serialization.MAP_LOCATION torch.serialization.FILE_LIKE
torch.serialization.StorageType torch.utils._python_dispatch.* torch.utils._sympy.* torch.utils._triton.*
torch.utils.bottleneck.* torch.utils.benchmark.* torch.utils.bundled_inputs.* torch.utils.data.datapipes.*
torch.utils.data.IterDataPipe torch.utils.data.MapDataPipe torch.utils.data._BaseDataLoaderIter
torch.utils.data._MultiProcessingDataLoaderIter torch.utils.data._SingleProcessDataLoaderIter torch.utils.data.graph.*
torch.utils.data.graph_settings.* torch.utils.flop_counter.* torch.utils.mobile_optimizer.*
torch.utils.module_tracker.* torch.utils.weak.* torchvision.datapoints.* torchvision.extension.* torchvision.io.*
torchvision.models.detection.* torchvision.models.feature_extraction.* torchvision.models.optical_flow.*
torchvision.models.quantization.* torchvision.models.segmentation.* torchvision.models.video.* torchvision.ops.*
torchvision.prototype.* torchvision.transforms.v2.* torchvision.tv_tensors.*
""".split()
)

# Functions whose answer is known without the part that they ask about, and decorators ("same": gives its argument,
# "decorator": gives a function that does).
ANSWERS: dict[str, object] = {
    "torch._C._cuda_isCurrentStreamCapturing": False,
    "torch._C._distributed_rpc._is_current_rpc_agent_set": False,
    "torch._C._get_tracing_state": None,
    "torch._C._jit_set_autocast_mode": False,
    "torch._C._jit_set_profiling_executor": True,
    "torch._C._jit_set_profiling_mode": True,
    "torch._C._jit_override_can_fuse_on_cpu": None,
    "torch._C._jit_override_can_fuse_on_gpu": None,
    "torch._C._jit_set_texpr_fuser_enabled": None,
    "torch._C._jit_set_nvfuser_enabled": None,
    "torch._C._log_api_usage_once": None,
    "torch._dynamo.assume_constant_result": "same",
    "torch._dynamo.external_utils.is_compiling": False,
    "torch._dynamo.graph_break": None,
    "torch._dynamo.mark_static": None,
    "torch._dynamo.mark_static_address": None,
    "torch._dynamo.maybe_mark_dynamic": None,
    "torch._jit_internal._overload": "same",
    "torch._jit_internal._overload_method": "same",
    "torch._jit_internal.export": "same",
    "torch._jit_internal.ignore": "same",
    "torch._jit_internal.unused": "same",
    "torch._logging.set_logs": None,
    "torch._subclasses.fake_tensor.is_fake": False,
    "torch.backends.opt_einsum.is_available": False,
    "torch.compiler.is_exporting": False,
    "torch.cuda.is_current_stream_capturing": False,
    "torch.distributed.elastic.multiprocessing.errors.record": "same",
    "torch.distributed.is_backend_available": False,
    "torch.distributed.rpc.is_available": False,
    "torch.fx.experimental.proxy_tensor.get_proxy_mode": None,
    "torch.fx.wrap": "same",
    "torch.jit._overload": "same",
    "torch.jit._overload_method": "same",
    "torch.onnx.is_in_onnx_export": False,
    "torch.optim.optimizer._default_to_fused_or_foreach": (False, False),
    "torch.optim.optimizer._get_capturable_supported_devices": [],
    "torch.optim.optimizer._get_value": "same",
    "torch.optim.optimizer._stack_if_compiling": "same",
    "torch.optim.optimizer._use_grad_for_differentiable": "same",
    "torch.overrides.has_torch_function": False,
    "torch.overrides.has_torch_function_unary": False,
    "torch.overrides.has_torch_function_variadic": False,
    "torch.profiler.kineto_available": False,
    "torch.profiler.itt.is_available": False,
    "torch.utils.data.functional_datapipe": "decorator",
    "torch.utils._python_dispatch.is_traceable_wrapper_subclass": False,
}

# Classes of torch.distributed that only hold what they are given.
OPTIONS = """BackwardPrefetch CPUOffload CPUOffloadPolicy ColwiseParallel FullOptimStateDictConfig FullStateDictConfig
LocalStateDictConfig MixedPrecision MixedPrecisionPolicy OffloadPolicy ParallelStyle Partial PrepareModuleInput
PrepareModuleInputOutput PrepareModuleOutput Replicate RowwiseParallel SequenceParallel Shard ShardedStateDictConfig
StateDictOptions _StridedShard""".split()
