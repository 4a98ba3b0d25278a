"""chainrule.vision: standard files and damaged ones, transforms of tensors beside Pillow's, networks."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule.vision import datasets, models, transforms, utils
from chainrule.vision.transforms import functional as F

try:
    from PIL import Image as _image
except ImportError:
    _image = None
Image: Any = _image
needs_pillow = pytest.mark.skipif(Image is None, reason="Pillow is not installed (make oracle)")

HEIGHT, WIDTH = 23, 17


def smooth(channels: int = 3) -> cr.Tensor:
    """A uint8 image (C, H, W) with gradual colors and some noise."""
    generator = cr.Generator().manual_seed(3)
    rows, columns = cr.arange(HEIGHT).reshape(1, -1, 1), cr.arange(WIDTH).reshape(1, 1, -1)
    turn = cr.arange(channels).reshape(-1, 1, 1)
    noise = cr.randint(0, 60, (channels, HEIGHT, WIDTH), generator=generator)
    return (rows * 5 + columns * 4 + turn * 20 + noise).clamp(0, 255).to(cr.uint8)


# ---- files


def write_idx(file: Path, shape: tuple[int, ...], data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    packed = bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data
    opener: Callable[..., Any] = gzip.open if file.suffix == ".gz" else open
    with opener(file, "wb") as f:
        f.write(packed)


def make_mnist(root: Path, name: str = "MNIST", images: int = 5, labels: int = 5, ending: str = "") -> Path:
    raw = root / name / "raw"
    pixels = bytes(i % 251 for i in range(images * 28 * 28))
    write_idx(raw / f"train-images-idx3-ubyte{ending}", (images, 28, 28), pixels)
    write_idx(raw / f"train-labels-idx1-ubyte{ending}", (labels,), bytes(i % 10 for i in range(labels)))
    return raw


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("kind", [datasets.MNIST, datasets.FashionMNIST, datasets.KMNIST])
def test_mnist_reads_its_files(tmp_path: Path, kind: type[datasets.MNIST], ending: str) -> None:
    make_mnist(tmp_path, kind.__name__, ending=ending)
    found = kind(str(tmp_path), transform=lambda image: F.to_tensor(image) if Image else image.to(cr.float32) / 255)
    assert len(found) == 5 and found.data.shape == (5, 28, 28) and found.targets.tolist() == [0, 1, 2, 3, 4]
    image, target = found[3]
    assert image.shape == (1, 28, 28) and target == 3
    assert cr.equal(image[0], found.data[3].to(cr.float32) / 255)
    assert "Number of datapoints: 5" in repr(found) and len(kind.classes) == 10


def test_mnist_refuses_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(url: str, **options: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(RuntimeError, match=r"there is no .*train-images-idx3-ubyte nor .*\.gz"):
        datasets.MNIST(tmp_path)
    with pytest.raises(RuntimeError, match=r"cannot download .*no network.*f68b3c2d.* into .*raw"):
        datasets.MNIST(tmp_path, download=True)
    raw = make_mnist(tmp_path, labels=4)
    with pytest.raises(RuntimeError, match="5 images, but 4 labels"):
        datasets.MNIST(tmp_path)
    images = raw / "train-images-idx3-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:-1])
    with pytest.raises(RuntimeError, match=r"has 3935 bytes; its header says 3936, shape \(5, 28, 28\)"):
        datasets.MNIST(tmp_path)
    images.write_bytes(whole[:3] + b"\x01" + whole[4:])
    with pytest.raises(RuntimeError, match="not an IDX file"):
        datasets.MNIST(tmp_path)


def test_download_checks_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda url, **options: io.BytesIO(b"another file"))
    with pytest.raises(RuntimeError, match="MD5 of the file is not"):
        datasets.MNIST(tmp_path, download=True)
    assert not list(tmp_path.rglob("*.part")) and not list(tmp_path.rglob("*.gz"))


class Pixels:
    """Pickles as Python 2's NumPy pickled an array of bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw


def array_pickle(entries: dict[str, Any]) -> bytes:
    """A dict whose Pixels are arrays of NumPy, in protocol 2, without NumPy."""
    out = [b"\x80\x02}("]
    for key, value in entries.items():
        out.append(pickle.dumps(key.encode(), 3)[2:-1])
        if isinstance(value, Pixels):
            shape = (len(value.raw) // 3072, 3072)
            out.append(b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01")
            out.append(pickle.dumps(shape, 2)[2:-1])
            out.append(b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
            out.append(b"\x89T" + struct.pack("<I", len(value.raw)) + value.raw + b"tb")
        else:
            out.append(pickle.dumps(value, 3)[2:-1])
    return b"".join(out) + b"u."


def make_cifar(root: Path) -> Path:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        raw = bytes((i + len(name)) % 256 for i in range(2 * 3072))
        (folder / name).write_bytes(array_pickle({"data": Pixels(raw), "labels": [1, 7]}))
    (folder / "batches.meta").write_bytes(array_pickle({"label_names": [f"class {i}".encode() for i in range(10)]}))
    return folder


def test_cifar_reads_its_files(tmp_path: Path) -> None:
    folder = make_cifar(tmp_path)
    train, test = datasets.CIFAR10(tmp_path), datasets.CIFAR10(tmp_path, train=False)
    assert len(train) == 10 and len(test) == 2 and train.targets == [1, 7] * 5
    assert train.data.shape == (10, 32, 32, 3) and train.classes[7] == "class 7"
    assert test.data[1, 2, 3].tolist() == [(3072 + c * 1024 + 2 * 32 + 3 + 10) % 256 for c in range(3)]

    (folder / "test_batch").write_bytes(array_pickle({"data": Pixels(bytes(3072)), "labels": [1, 7]}))
    with pytest.raises(RuntimeError, match=r"3072 bytes of pixels for 2 images; 6144 are needed"):
        datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes(b"cos\nsystem\n(U\x04trueu.")
    with pytest.raises(RuntimeError, match=r"os\.system: refused"):
        datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes((folder / "data_batch_1").read_bytes()[:500])
    with pytest.raises(RuntimeError, match="not a file of CIFAR"):
        datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").unlink()
    with pytest.raises(RuntimeError, match=r"there is no .*test_batch.*cifar-10-python\.tar\.gz"):
        datasets.CIFAR10(tmp_path, train=False)


@needs_pillow
def test_image_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(tmp_path)
    for name, count in (("dog", 2), ("cat", 1)):
        for i in range(count):
            (tmp_path / name / "deep").mkdir(parents=True, exist_ok=True)
            F.to_pil_image(smooth()).save(tmp_path / name / "deep" / f"{i}.png")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    found = datasets.ImageFolder(tmp_path, transform=transforms.ToTensor())
    assert found.classes == ["cat", "dog"] and found.targets == [0, 1, 1]
    assert cr.equal(found[2][0], smooth().to(cr.float32) / 255)
    (tmp_path / "bird").mkdir()
    with pytest.raises(FileNotFoundError, match="Found no valid file for the classes bird"):
        datasets.ImageFolder(tmp_path)


def test_fake_data_depends_on_the_number_only() -> None:
    found = datasets.FakeData(size=4, image_size=(3, 5, 7), num_classes=3)
    images = [F.to_tensor(found[i][0]) for i in (0, 1, 0)]
    assert images[0].shape == (3, 5, 7) and cr.equal(images[0], images[2]) and not cr.equal(images[0], images[1])
    with pytest.raises(IndexError):
        found[4]


# ---- transforms: a tensor and Pillow's image of the same pixels

BOTH = [
    ("hflip", (), {}, 0),
    ("vflip", (), {}, 0),
    ("crop", (2, 3, 10, 9), {}, 0),
    ("crop", (-2, -3, 40, 30), {}, 0),
    ("center_crop", ([11, 8],), {}, 0),
    ("center_crop", ([31, 28],), {}, 0),
    ("pad", ([2, 3, 4, 1],), {}, 0),
    ("pad", (2, 7), {}, 0),
    ("resize", ([11, 8],), {}, 1),
    ("resize", (31,), {}, 1),
    ("resize", ([46, 51], F.InterpolationMode.NEAREST), {}, 0),
    ("resize", ([9, 9], F.InterpolationMode.BICUBIC), {}, 1),
    ("resized_crop", (2, 3, 10, 9, [8, 8]), {}, 1),
    ("rgb_to_grayscale", (3,), {}, 1),
    ("adjust_brightness", (0.6,), {}, 1),
    ("adjust_contrast", (1.7,), {}, 2),
    ("adjust_saturation", (0.3,), {}, 2),
    ("adjust_gamma", (0.7,), {}, 1),
    ("adjust_sharpness", (2.0,), {}, 2),
    ("adjust_hue", (0.2,), {}, 12),  # Pillow rounds the hue to 8 bits
    ("invert", (), {}, 0),
    ("solarize", (128,), {}, 0),
    ("posterize", (3,), {}, 0),
    ("autocontrast", (), {}, 1),
    ("equalize", (), {}, 0),
    ("rotate", (90,), {"expand": True}, 0),
    ("rotate", (180,), {}, 0),
    ("five_crop", (8,), {}, 0),
    ("ten_crop", (8,), {}, 0),
    ("gaussian_blur", ([5, 3],), {}, 0),
]


@needs_pillow
@pytest.mark.parametrize(("name", "args", "kwargs", "off"), BOTH)
def test_tensor_and_image_agree(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], off: int) -> None:
    change = getattr(F, name)
    ours, pillows = change(smooth(), *args, **kwargs), change(F.to_pil_image(smooth()), *args, **kwargs)
    if not isinstance(ours, tuple):
        ours, pillows = (ours,), (pillows,)
    for a, b in zip(ours, pillows, strict=True):
        b = F.pil_to_tensor(b)
        assert a.shape == b.shape and a.dtype is cr.uint8
        assert (a.int() - b.int()).abs().max().item() <= off, name


def test_float_images_are_scaled_uint8_images() -> None:
    for name, args in (("adjust_brightness", (0.6,)), ("adjust_contrast", (1.7,)), ("adjust_saturation", (0.3,)),
                       ("adjust_hue", (0.2,)), ("invert", ()), ("rotate", (30,)), ("hflip", ()),
                       ("affine", (20, [2, -3], 1.2, [5, 3])), ("resize", (31,))):  # fmt: skip
        change = getattr(F, name)
        whole, real = change(smooth(), *args), change(smooth().to(cr.float32) / 255, *args)
        assert (whole.to(cr.float32) - real * 255).abs().max().item() <= 2.01, name  # gray levels are truncated


def test_padding_modes_by_hand() -> None:
    x = cr.arange(1, 5).reshape(1, 1, 4)
    for mode, row in (("edge", [1, 1, 1, 2, 3, 4, 4, 4]), ("reflect", [3, 2, 1, 2, 3, 4, 3, 2]),
                      ("symmetric", [2, 1, 1, 2, 3, 4, 4, 3]), ("constant", [0, 0, 1, 2, 3, 4, 0, 0])):  # fmt: skip
        assert F.pad(x, [2, 0], padding_mode=mode).flatten().tolist() == row, mode


@needs_pillow
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I", "F", "1"])
def test_images_become_tensors_and_back(mode: str) -> None:
    image = F.to_pil_image(smooth()).convert(mode)
    pixels = F.pil_to_tensor(image)
    assert pixels.shape == (len(image.getbands()), HEIGHT, WIDTH)
    if mode != "1":
        assert F.to_pil_image(pixels, mode).tobytes() == image.tobytes()
    scaled = F.to_tensor(image)
    assert scaled.is_floating_point() == (mode != "I")


def test_convert_image_dtype() -> None:
    x = cr.tensor([0, 1, 127, 128, 255], dtype=cr.uint8)
    assert F.convert_image_dtype(x, cr.float32).tolist() == (x.to(cr.float32) / 255).tolist()
    assert F.convert_image_dtype(F.convert_image_dtype(x, cr.float64), cr.uint8).tolist() == x.tolist()
    assert F.convert_image_dtype(x, cr.int16).tolist() == (x.to(cr.int16) * 128).tolist()


RANDOM = [
    transforms.RandomCrop(9, padding=2),
    transforms.RandomCrop((40, 12), pad_if_needed=True),
    transforms.RandomResizedCrop(12),
    transforms.RandomHorizontalFlip(),
    transforms.RandomVerticalFlip(),
    transforms.RandomGrayscale(0.5),
    transforms.ColorJitter(0.4, 0.3, (0.5, 1.5), 0.1),
    transforms.RandomRotation(30),
    transforms.RandomAffine((-20, 20), (0.1, 0.2), (0.8, 1.2), (-5, 5, -3, 3)),
    transforms.RandomErasing(0.9, value="random"),
    transforms.GaussianBlur(3),
    transforms.RandomApply([transforms.Grayscale(3)], 0.5),
    transforms.RandomChoice([transforms.Pad(1), transforms.CenterCrop(8)], p=[1, 3]),
    transforms.RandomOrder([transforms.RandomInvert(0.5), transforms.RandomSolarize(0.5)]),
    transforms.RandomPosterize(4),
    transforms.RandomEqualize(),
    transforms.RandomAutocontrast(),
    transforms.RandomAdjustSharpness(2),
]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_random_transforms_follow_the_seed(transform: Any) -> None:
    image = smooth() if "Posterize" in repr(transform) or "Equalize" in repr(transform) else F.to_tensor(smooth())
    runs = []
    for seed in (1, 1, 2, 3, 4, 5, 6, 7, 8, 9):
        cr.manual_seed(seed)
        runs.append(transform(image))
    assert cr.equal(runs[0], runs[1])
    assert any(r.shape != runs[0].shape or not cr.equal(r, runs[0]) for r in runs[2:]), "every seed gives the same"


def test_bad_arguments() -> None:
    x = F.to_tensor(smooth())
    for kind, part, call in (
        (ValueError, "std evaluated to zero", lambda: F.normalize(x, [0, 0, 0], [1, 0, 1])),
        (TypeError, "should be a float tensor", lambda: F.normalize(smooth(), [0], [1])),
        (TypeError, "PIL Image or Tensor", lambda: F.hflip([1, 2])),
        (ValueError, "larger than input image size", lambda: transforms.RandomCrop(99)(x)),
        (ValueError, "bigger than input size", lambda: F.five_crop(x, 99)),
        (ValueError, "odd and positive", lambda: F.gaussian_blur(x, 4)),
        (ValueError, "not in", lambda: F.adjust_hue(x, 0.7)),
        (ValueError, "non-negative", lambda: F.adjust_contrast(x, -1)),
        (ValueError, "scale should be positive", lambda: F.affine(x, 0, [0, 0], 0, [0, 0])),
        (ValueError, "Padding mode", lambda: F.pad(x, 1, padding_mode="wrap")),
        (ValueError, "cannot be resized by lanczos", lambda: F.resize(x, 5, F.InterpolationMode.LANCZOS)),
        (ValueError, "downloads no weights", lambda: models.resnet18(pretrained=True)),
        (ValueError, "28 x 28 or 32 x 32", lambda: models.LeNet(image_size=30)),
        (ValueError, "do not divide", lambda: models.vit_b_16(image_size=20)),
    ):
        with pytest.raises(kind, match=part):
            call()


def test_compose_and_reprs() -> None:
    pipeline = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])
    assert repr(pipeline) == "Compose(\n    ToTensor()\n    Normalize(mean=(0.5,), std=(0.25,))\n)"
    assert cr.allclose(pipeline(smooth(1)), (smooth(1).to(cr.float32) / 255 - 0.5) / 0.25)


# ---- grids and networks


def test_make_grid() -> None:
    x = cr.arange(5 * 2 * 3, dtype=cr.float32).reshape(5, 1, 2, 3)
    grid = utils.make_grid(x, nrow=3, padding=1, pad_value=-1)
    assert grid.shape == (3, 7, 13)
    assert cr.equal(grid[1, 1:3, 5:8], x[1, 0]) and cr.equal(grid[2, 4:6, 1:4], x[3, 0]) and grid[0, 0, 0] == -1
    scaled = utils.make_grid(x, normalize=True)
    assert scaled.amin().item() == 0 and scaled.amax().item() == 1
    each = utils.make_grid(x, normalize=True, scale_each=True, padding=0, nrow=5)
    assert [each[0, :, 3 * i : 3 * i + 3].amax().item() for i in range(5)] == [1] * 5


@needs_pillow
def test_save_image(tmp_path: Path) -> None:
    x = F.to_tensor(smooth())
    utils.save_image(x, tmp_path / "one.png")
    with Image.open(tmp_path / "one.png") as image:
        assert cr.equal(F.pil_to_tensor(image), smooth())


NETWORKS = [
    (lambda: models.LeNet(), (2, 1, 28, 28), 61706, "conv1.weight"),
    (lambda: models.LeNet(num_classes=7, in_channels=3, image_size=32), (2, 3, 32, 32), 61751, "fc3.bias"),
    (lambda: models.resnet18(), (1, 3, 32, 32), 11689512, "layer2.0.downsample.0.weight"),
    (lambda: models.mobilenet_v2(), (1, 3, 32, 32), 3504872, "features.2.conv.1.0.weight"),
    (
        lambda: models.VisionTransformer(16, 8, 2, 2, 16, 32, num_classes=5),
        (2, 3, 16, 16),
        7749,
        "encoder.layers.encoder_layer_1.self_attention.in_proj_weight",
    ),
]


@pytest.mark.parametrize(("make", "shape", "count", "name"), NETWORKS)
def test_networks(make: Any, shape: tuple[int, ...], count: int, name: str) -> None:
    """Parameters counted as torchvision publishes them (ResNet-18 11.7 M, MobileNetV2 3.5 M); a step reaches all."""
    network = make()
    assert sum(p.numel() for p in network.parameters()) == count
    assert name in network.state_dict()
    network.eval()
    network(cr.randn(*shape, generator=cr.Generator().manual_seed(0))).square().sum().backward()
    without = [n for n, p in network.named_parameters() if p.grad is None]
    assert not without


# ---- Pillow's modes: what torchvision documents, by Pillow's and NumPy's own functions

MODES = "1 L LA P PA RGB RGBA RGBX CMYK YCbCr HSV I I;16 I;16B F".split()


def image_of(mode: str, height: int = 7, width: int = 9) -> Any:
    """An image with bytes of all kinds."""
    np = pytest.importorskip("numpy")
    drawn = np.random.default_rng(5)
    if mode == "1":
        return Image.fromarray(drawn.integers(0, 2, (height, width)).astype(bool))
    if mode in ("I", "F"):
        return Image.fromarray(drawn.integers(-9, 90000, (height, width)).astype("int32" if mode == "I" else "float32"))
    count = 2 if mode.startswith("I;16") else len(Image.new(mode, (1, 1)).getbands())
    made = Image.frombytes(mode, (width, height), drawn.bytes(height * width * count))
    if "P" in mode:
        made.putpalette([(7 * i) % 256 for i in range(768)])
    return made


def same_images(a: Any, b: Any) -> None:
    assert a.mode == b.mode and a.size == b.size and a.tobytes() == b.tobytes() and a.getpalette() == b.getpalette()


@needs_pillow
@pytest.mark.parametrize("mode", MODES)
def test_modes_as_tensors(mode: str) -> None:
    np = pytest.importorskip("numpy")
    image = image_of(mode)
    wanted = np.array(image)
    wanted = wanted.reshape(7, 9, -1).transpose(2, 0, 1)
    pixels = F.pil_to_tensor(image)
    assert pixels.tolist() == wanted.tolist()
    assert str(pixels.dtype).rpartition(".")[2] == wanted.dtype.newbyteorder("=").name
    scaled = F.to_tensor(image)
    if mode in ("I", "F") or mode.startswith("I;16"):
        assert scaled.tolist() == wanted.tolist()
    else:
        whole = 1 if mode == "1" else 255
        assert np.allclose(scaled.tolist(), wanted.astype("float64") / whole, atol=1e-6) and scaled.dtype is cr.float32
    if mode in ("L", "LA", "RGB", "RGBA", "I", "I;16"):
        same_images(F.to_pil_image(pixels), image)
    if mode in ("CMYK", "RGBX", "YCbCr", "HSV", "F"):
        same_images(F.to_pil_image(pixels, mode), image)


@needs_pillow
@pytest.mark.parametrize("mode", MODES)
def test_padded_modes(mode: str) -> None:
    np = pytest.importorskip("numpy")
    image = image_of(mode)
    array = np.array(image)
    for kind in ("edge", "reflect", "symmetric"):
        for left, top, right, bottom in ((2, 1, 3, 2), (-1, 2, 1, -2)):
            margins = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))] + [(0, 0)] * (array.ndim - 2)
            cut = array[max(-top, 0) : 7 - max(-bottom, 0), max(-left, 0) : 9 - max(-right, 0)]
            y = F.pad(image, [left, top, right, bottom], padding_mode=kind)
            assert y.mode == mode and np.array(y).tolist() == np.pad(cut, margins, mode=kind).tolist(), kind
            assert y.getpalette() == image.getpalette()
    y = F.pad(image, [1, 2], fill=1)
    inside = y.crop((1, 2, 10, 9))
    assert inside.tobytes() == image.tobytes() and y.size == (11, 11) and y.getpalette() == image.getpalette()
    corner = y.getpixel((0, 0))
    assert corner in ((1, 255) if mode == "1" else [(1,) * len(image.getbands()) if len(image.getbands()) > 1 else 1])


@needs_pillow
@pytest.mark.parametrize("mode", MODES)
def test_turned_modes(mode: str) -> None:
    image = image_of(mode)
    bands = len(image.getbands())
    color = (9,) * bands if bands > 1 else 9
    for fill in (9, 9.0, [9.0], (9,), [9] * bands):
        same_images(F.rotate(image, 45.0, fill=fill), image.rotate(45.0, fillcolor=color))
    black = (0,) * bands if bands > 1 else 0
    same_images(F.rotate(image, 45.0), image.rotate(45.0, fillcolor=black))
    one = F.affine(image, 5.0, [1, -1], 1.2, [7.0], fill=9)
    same_images(one, F.affine(image, 5.0, [1, -1], 1.2, [7.0, 7.0], fill=[9.0]))
    same_images(F.affine(image, 5.0, (1, -1), 1.2, 7.0), F.affine(image, 5.0, [1, -1], 1.2, (7.0, 0.0), fill=0))
    assert one.getpixel((0, 0)) == (255 if mode == "1" else color) or one.tobytes() != image.tobytes()
    same_images(F.resize(image, [4, 5], F.InterpolationMode.NEAREST), image.resize((5, 4), Image.Resampling.NEAREST))
    with pytest.raises(ValueError, match="does not match the number of channels"):
        F.rotate(image, 5.0, fill=[1] * (bands + 1))


@needs_pillow
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "CMYK", "HSV"])
def test_gamma_of_modes(mode: str) -> None:
    image = image_of(mode)
    for gamma, gain in ((0.5, 1.0), (2.2, 1.0), (1.0, 1.7), (0.0, 1.0)):
        table = [min(255, int(255.999 * gain * (v / 255) ** gamma)) for v in range(256)] * 3
        same_images(F.adjust_gamma(image, gamma, gain), image.convert("RGB").point(table).convert(mode))


def test_one_shear_of_tensors() -> None:
    x = smooth().to(cr.float32)
    two = F.affine(x, 0.0, [0, 0], 1.0, [20.0, 20.0])
    assert cr.equal(F.affine(x, 0.0, [0, 0], 1.0, [20.0]), two)
    assert cr.equal(F.affine(x, 0.0, [0, 0], 1.0, 20.0), F.affine(x, 0.0, [0, 0], 1.0, [20.0, 0.0]))
    for wrong in ([1.0, 2.0, 3.0], []):
        with pytest.raises(ValueError, match="Shear should be"):
            F.affine(x, 0.0, [0, 0], 1.0, wrong)
    ones, way = cr.ones(1, 9, 9), F.InterpolationMode.BILINEAR
    inside = F.rotate(ones, 30.0, way)
    for value in (0.0, 4.0):  # a pixel is weighted by how much of it is inside, what is outside by the rest
        y = F.rotate(ones, 30.0, way, fill=[value])
        assert (y - (inside * inside + (1 - inside) * value)).abs().max().item() < 1e-5
    filled = F.rotate(x, 45.0, fill=[9.0])
    assert filled[:, 0, 0].tolist() == [9, 9, 9]


def test_white_of_dtypes() -> None:
    """invert, brightness and gamma know the largest value of a dtype."""
    for dtype, white in ((cr.uint8, 255), (cr.int16, 32767), (cr.int32, 2147483647), (cr.float32, 1.0)):
        assert F.invert(cr.tensor([[[0, 1]]], dtype=dtype)).tolist() == [[[white, white - 1]]]
    x = cr.tensor([[[0, 100, 20000]]], dtype=cr.int16)
    assert F.adjust_brightness(x, 2.0).tolist() == [[[0, 200, 32767]]]
    assert F.adjust_gamma(x, 1.0).tolist() == [[[0, 100, 20000]]]
    assert F.resize(cr.full((1, 2, 2), 300, dtype=cr.int16), [3, 3]).unique().tolist() == [300]
    with pytest.raises(RuntimeError, match="cannot be performed safely"):
        F.convert_image_dtype(cr.ones(1, 2, 2), cr.int32)
    image = cr.arange(256).to(cr.uint8).reshape(1, 16, 16)
    assert F.solarize(image, 127.5).flatten().tolist() == [v if v < 127.5 else 255 - v for v in range(256)]


@needs_pillow
def test_solarize_between_values() -> None:
    image = F.to_pil_image(cr.arange(256).to(cr.uint8).reshape(1, 16, 16))
    assert list(F.solarize(image, 127.5).tobytes()) == [v if v < 127.5 else 255 - v for v in range(256)]


def test_sizes_of_resize() -> None:
    x = cr.ones(1, 20, 40)
    assert F.resize(x, 10, max_size=15).shape == (1, 7, 15)
    for wanted in (15, 16):
        with pytest.raises(ValueError, match="strictly greater"):
            F.resize(x, wanted, max_size=15)
