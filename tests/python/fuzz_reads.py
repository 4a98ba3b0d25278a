"""What a step may read from Python, in the fuzzer of compiled steps: (name, setup, expressions, changes).  An
expression is a number that the step multiplies by; a change between calls gives it, or may give it, another value."""

from __future__ import annotations

READS: list[tuple[str, str, list[str], list[str]]] = [
    ("number", "k0 = 2.0", ["k0", "-k0", "(k0 if k0 > 1 else 0.5)"], ["k0 = 3.0", "k0 = 0.5", "k0 = 2"]),
    (
        "list",
        "k1 = [1.0, 2.0]",
        ["k1[1]", "k1[-1]", "sum(k1)", "len(k1)", "max(k1)", "[k for k in k1][0]", "k1[:1][0]", "(1.5 in k1)"],
        [
            "k1[1] = 3.0",
            "k1.append(1.5)",
            "k1.reverse()",
            "k1[0] += 1",
            "k1.insert(0, 4.0)",
            "k1 = [5.0, 6.0]",
            "k1 *= 2",
        ],
    ),
    (
        "dict",
        "k2 = {'a': {'b': [1.0, 2.0]}, 'c': 3.0}",
        [
            "k2['a']['b'][1]",
            "k2.get('d', 1.5)",
            "len(k2)",
            "k2['c']",
            "sum(k2['a']['b'])",
            "('d' in k2)",
            "next(iter(k2['a'].values()))[0]",
            "{**k2}['c']",
        ],
        [
            "k2['a']['b'][1] = 3.0",
            "k2['d'] = 2.5",
            "k2['c'] = 4.0",
            "k2['a'] = {'b': [7.0, 8.0]}",
            "del k2['c']",
            "k2.update(c=1.0)",
            "k2['a']['b'].append(5.0)",
        ],
    ),
    (
        "attribute",
        "class K3:\n    k = 2.0\nclass K3b(K3):\n    pass\nk3 = K3b()",
        [
            "k3.k",
            "getattr(k3, 'k')",
            "getattr(k3, name, 1.0)",
            "vars(k3).get('k', 1.5)",
            "(2.0 if hasattr(k3, 'extra') else 1.0)",
        ],
        [
            "k3.k = 3.0",
            "K3.k = 4.0",
            "K3b.k = 5.0",
            "setattr(k3, 'k', 6.0)",
            "k3.__dict__['k'] = 7.0",
            "k3.extra = 1",
            "name = 'other'",
            "k3.other = 9.0",
        ],
    ),
    (
        "slots",
        "class K4:\n    __slots__ = ('k',)\n    def __init__(self, k):\n        self.k = k\nk4 = [K4(2.0), K4(3.0)]",
        ["k4[0].k", "sum(k.k for k in k4)", "max(k4, key=lambda k: k.k).k"],
        ["k4[0].k = 5.0", "k4[1].k = 1.0", "k4.pop()", "k4[0] = K4(7.0)"],
    ),
    (
        "property",
        "class K5:\n    factor = 1.0\n    def __init__(self):\n        self._k = 2.0\n    @property\n    def k(self):\n"
        "        return self._k * self.factor\nk5 = K5()",
        ["k5.k"],
        ["k5._k = 3.0", "K5.factor = 2.0", "k5.factor = 4.0", "K5.k = property(lambda self: 9.0)"],
    ),
    (
        "__getattr__",
        "class K6:\n    def __init__(self):\n        self.of = {'k': 2.0}\n    def __getattr__(self, name):\n"
        "        if name == 'of': raise AttributeError(name)\n        return self.of[name]\nk6 = K6()",
        ["k6.k", "getattr(k6, 'k')"],
        ["k6.of['k'] = 3.0", "k6.of = {'k': 4.0}", "k6.k = 5.0"],
    ),
    (
        "special methods",
        "class K7:\n    def __init__(self):\n        self.d = [2.0, 3.0]\n"
        "    def __getitem__(self, i):\n        return self.d[i]\n"
        "    def __len__(self):\n        return len(self.d)\n    def __call__(self):\n        return self.d[0]\n"
        "    def __iter__(self):\n        return iter(self.d)\n    def __float__(self):\n        return self.d[1]\n"
        "    def __bool__(self):\n        return self.d[0] > 2\n"
        "    def __rmul__(self, x):\n        return x * self.d[0]\nk7 = K7()",
        ["k7[0]", "len(k7)", "k7()", "sum(k7)", "float(k7)", "(2.0 if k7 else 1.0)", "[*k7][1]"],
        [
            "k7.d[0] = 5.0",
            "k7.d.append(1.0)",
            "k7.d = [1.0, 4.0]",
            "K7.__call__ = lambda self: 8.0",
            "K7.__len__ = lambda self: 5",
        ],
    ),
    (
        "partial",
        "import functools\nk8 = functools.partial(lambda a, k: a * k, 1.0, k=2.0)",
        ["k8()", "k8(k=3.0)"],
        ["k8.keywords['k'] = 3.0", "k8 = functools.partial(lambda a: a, 5.0)"],
    ),
    (
        "function",
        "def k9(a=2.0, *, b=1.0):\n    return a * b * k9.c\nk9.c = 1.0",
        ["k9()", "k9(b=2.0)"],
        [
            "k9.__defaults__ = (3.0,)",
            "k9.__kwdefaults__ = {'b': 4.0}",
            "k9.c = 2.0",
            "k9.__code__ = (lambda a=2.0, *, b=1.0: 7.0).__code__",
            "k9 = lambda b=1.0: 5.0",
        ],
    ),
    (
        "cell",
        "def outer(v):\n    def get():\n        return v\n"
        "    def put(n):\n        nonlocal v\n        v = n\n    return get, put\n"
        "kget, kput = outer(2.0)",
        ["kget()"],
        ["kput(3.0)", "kget.__closure__[0].cell_contents = 4.0"],
    ),
    (
        "deque",
        "import collections\nka = collections.deque([1.0, 2.0])",
        ["ka[0]", "len(ka)", "sum(ka)"],
        ["ka.append(3.0)", "ka[0] = 4.0", "ka.rotate(1)", "ka.popleft()"],
    ),
    ("set", "kb = {1, 2}", ["len(kb)", "(2 in kb)", "sum(kb)"], ["kb.add(5)", "kb.discard(2)"]),
    (
        "ordered",
        "import collections\nkc = collections.OrderedDict(a=1.0, b=2.0)\nkd = collections.defaultdict(float, a=1.0)",
        ["next(iter(kc.values()))", "(kd['z'] + 1.5)", "[*kc.values()][0]"],
        ["kc.move_to_end('a')", "kd['z'] = 3.0"],
    ),
    (
        "array",
        "import array\nke = array.array('d', [1.0, 2.0])\nkf = bytearray(b'ab')",
        ["ke[0]", "kf[0]", "sum(ke)"],
        ["ke[0] = 3.0", "kf[0] = 9", "ke.append(1.0)"],
    ),
    (
        "dataclass",
        "import dataclasses\n@dataclasses.dataclass\nclass Kg:\n    k: float = 2.0\n    ks: list = dataclasses.field("
        "default_factory=lambda: [1.0])\nkg = Kg()",
        ["kg.k", "kg.ks[0]"],
        ["kg.k = 3.0", "kg.ks[0] = 4.0", "kg = Kg(5.0)"],
    ),
    (
        "named tuple",
        "import collections\nkh = collections.namedtuple('Kh', 'a b')(1.0, [2.0])",
        ["kh.b[0]", "kh[1][0]"],
        ["kh.b[0] = 3.0", "kh = kh._replace(b=[4.0])"],
    ),
    (
        "weak reference",
        "import weakref\nclass Ki:\n    k = 2.0\nki = Ki()\nkj = weakref.ref(ki)",
        ["(kj().k if kj() else 1.0)"],
        ["ki.k = 3.0", "del ki; gc.collect()", "ki = Ki()"],
    ),
    (
        "context",
        "import contextvars, threading\nkk = contextvars.ContextVar('kk', default=2.0)\nkl = threading.local()\n"
        "kl.k = 2.0",
        ["kk.get()", "kl.k"],
        ["kk.set(3.0)", "kl.k = 3.0"],
    ),
    (
        "cache",
        "import functools\nkm0 = 2.0\n@functools.lru_cache\ndef km():\n    return km0",
        ["km()"],
        ["km0 = 3.0; km.cache_clear()", "km.cache_clear()"],
    ),
    (
        "module",
        "import types, sys\nkn = types.ModuleType('kn')\nkn.k = 2.0\nsys.modules['kn'] = kn",
        ["kn.k", "__import__('kn').k"],
        ["kn.k = 3.0", "sys.modules['kn'].k = 4.0"],
    ),
    (
        "getters",
        "import operator\nclass Ko:\n    k = 2.0\nko, kp = Ko(), operator.attrgetter('k')",
        ["kp(ko)", "[*map(kp, [ko])][0]"],
        ["ko.k = 3.0", "Ko.k = 4.0"],
    ),
    (
        "functions in a dict",
        "kq = {'f': lambda: 2.0, 'g': [lambda: 3.0]}",
        ["kq['f']()", "kq['g'][0]()"],
        ["kq['f'] = lambda: 4.0", "kq['g'][0] = lambda: 5.0"],
    ),
    (
        "type",
        "class Kr: pass\nclass Ks: pass\nkr = Kr()",
        ["(2.0 if isinstance(kr, Kr) else 3.0)", "(type(kr) is Kr) * 1.5"],
        ["kr = Ks()", "kr.__class__ = Ks"],
    ),
    ("exception", "kt = {}", ["kraises()"], ["kt['k'] = 3.0"]),
    (
        "iterator",
        "import itertools\nku = itertools.count(1)\nkv = iter([1.0, 2.0, 3.0, 4.0, 5.0] * 9)",
        ["next(ku)", "next(kv)"],
        [],
    ),
    (
        "clock",
        "import time, os, random",
        ["float(os.environ.get('FUZZ_K', '2'))", "float(os.getenv('FUZZ_K', '2'))", "(random.random() * 0 + 1.5)"],
        ["os.environ['FUZZ_K'] = '3'", "os.environ.pop('FUZZ_K', None)"],
    ),
    (
        "text",
        "kw = '2'",
        ["float(kw)", "(2.0 if kw == '2' else 3.0)", "len(kw)", "float(f'{kw}0')"],
        ["kw = '33'", "kw = '4'"],
    ),
    (
        "tensor's facts",
        "kx = X(120, 3, 6)",
        [
            "kx.shape[0]",
            "len(kx)",
            "(2.0 if kx.requires_grad else 1.0)",
            "(2.0 if kx.grad is None else 1.0)",
            "kx.numel()",
            "(2.0 if kx.dtype is cr.float32 else 1.0)",
            "kx.stride()[0]",
        ],
        [
            "kx = X(121, 4, 6)",
            "kx.requires_grad_()",
            "kx.data = X(122, 2, 6)",
            "kx = kx.double()",
            "kx.data = X(123, 6, 3).t()",
            "kx.requires_grad_(); kx.sum().backward()",
        ],
    ),
    (
        "the process",
        "",
        [
            "(2.0 if cr.is_grad_enabled() else 1.0)",
            "cr.get_num_threads()",
            "(2.0 if cr.get_default_dtype() is cr.float32 else 1.0)",
        ],
        ["cr.set_num_threads(1)", "cr.set_default_dtype(cr.float64)", "cr.set_default_dtype(cr.float32)"],
    ),
    ("random of Python", "import random\nky = random.Random(3)", ["ky.random()"], []),
    (
        "recursion",
        "kz = {'next': {'next': {'k': 2.0}}}\ndef kdeep(d):\n    return d['k'] if 'k' in d else kdeep(d['next'])",
        ["kdeep(kz)"],
        ["kz['next']['next']['k'] = 3.0", "kz['k'] = 4.0"],
    ),
]
MODULE_READS = [  # of a module m and an optimizer o
    ("m", "len([*{m}.parameters()])"),
    ("m", "sum(p.numel() for p in {m}.parameters()) / 50"),
    ("m", "(2.0 if {m}.training else 1.0)"),
    ("m", "(2.0 if Q({m}).grad is None else 1.0)"),
    ("m", "(2.0 if Q({m}).requires_grad else 1.0)"),
    ("m", "len({m}.state_dict())"),
    ("m", "len([*{m}.children()]) + 1"),
    ("m", "(1.0 + sum(x.training for x in {m}.modules()))"),
    ("m", "getattr({m}, 'note', 1.5)"),
    ("o", "group({o})['lr'] + 1"),
    ("o", "len({o}.state) + 1"),
    ("o", "len(group({o})['params'])"),
    ("o", "sum(len(g['params']) for g in {o}.param_groups)"),
    ("o", "(1.0 + max([float(s['step']) for s in {o}.state.values() if 'step' in s], default=0.0))"),
    ("o", "{o}.defaults.get('lr', 1.0) + 1"),
]
