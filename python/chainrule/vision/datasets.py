"""Datasets of images from their standard files: MNIST and its kin, CIFAR, folders of images, made-up images.

``download=True`` fetches the files and compares their MD5 with the published one.  Without a network the error
says which file belongs where.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import pickle
import shutil
import tarfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from .. import _core
from .._core import Tensor
from ..data import Dataset

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST",
           "VisionDataset"]  # fmt: skip

Transform = Callable[[Any], Any] | None
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def _md5(file: Path) -> str:
    with open(file, "rb") as f:
        return hashlib.file_digest(f, "md5").hexdigest()


def _fetch(urls: Sequence[str], file: Path, md5: str) -> None:
    """Makes ``file`` from the first url that answers.  RuntimeError: none does, or the content is another one."""
    if file.is_file() and _md5(file) == md5:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part, failure = file.with_name(file.name + ".part"), "no address"
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=30) as source, open(part, "wb") as to:
                shutil.copyfileobj(source, to)
        except OSError as wrong:
            failure = f"{url}: {wrong}"
            continue
        if _md5(part) != md5:
            part.unlink()
            failure = f"{url}: the MD5 of the file is not {md5}"
            continue
        part.replace(file)
        return
    raise RuntimeError(f"cannot download {file.name} ({failure}). Put the file (MD5 {md5}) into {file.parent}")


def _picture(pixels: Tensor) -> Any:
    """uint8 (H, W) or (H, W, C) as Pillow's image; without Pillow as a tensor (C, H, W)."""
    try:
        from PIL import Image
    except ImportError:
        return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    height, width = pixels.shape[:2]
    return Image.frombytes("L" if pixels.ndim == 2 else "RGB", (width, height), bytes(pixels.contiguous()))


class VisionDataset(Dataset):
    """(image, target) by number.  ``transforms(image, target)``, or ``transform`` and ``target_transform``,
    change them."""

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transforms, self.transform, self.target_transform = transforms, transform, target_transform

    def _changed(self, image: Any, target: Any) -> tuple[Any, Any]:
        if self.transforms is not None:
            return self.transforms(image, target)
        return (
            image if self.transform is None else self.transform(image),
            target if self.target_transform is None else self.target_transform(target),
        )

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def extra_repr(self) -> str:
        """Lines for the repr."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Dataset {type(self).__name__}", f"    Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"    Root location: {self.root}")
        lines += [f"    {line}" for line in self.extra_repr().splitlines()]
        if self.transform is not None:
            lines.append(f"    Transform: {self.transform!r}")
        return "\n".join(lines)


# ---- MNIST and datasets in its format


def _read_idx(file: Path, ndim: int) -> Tensor:
    """The uint8 array of an IDX file: 2 bytes of 0, 8 for uint8, the number of axes, big-endian sizes, elements."""
    raw = bytearray(file.read_bytes())
    header = 4 + 4 * ndim
    if len(raw) < header or tuple(raw[:4]) != (0, 0, 8, ndim):
        raise RuntimeError(f"{file} is not an IDX file of uint8 with {ndim} axes")
    shape = [int.from_bytes(raw[at : at + 4], "big") for at in range(4, header, 4)]
    expected = header + math.prod(shape)
    if len(raw) != expected:
        raise RuntimeError(f"{file} has {len(raw)} bytes; its header says {expected}, shape {tuple(shape)}")
    return _core.asarray(raw[header:], dtype=_core.uint8).reshape(shape)


class MNIST(VisionDataset):
    """Handwritten digits (LeCun, Cortes, Burges): 60,000 and 10,000 images of 28 x 28.

    The files lie in ``root/MNIST/raw``.  data: uint8 (N, 28, 28); targets: int64 (N).
    """

    mirrors: ClassVar[tuple[str, ...]] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    classes: ClassVar[list[str]] = [
        f"{i} - {name}" for i, name in enumerate("zero one two three four five six seven eight nine".split())
    ]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        start = "train" if train else "t10k"
        self.data = self._array(f"{start}-images-idx3-ubyte", 3)
        self.targets = self._array(f"{start}-labels-idx1-ubyte", 1).to(_core.int64)
        if len(self.data) != len(self.targets):
            raise RuntimeError(
                f"{type(self).__name__}: {len(self.data)} images, but {len(self.targets)} labels, in {self.raw_folder}"
            )

    def _array(self, name: str, ndim: int) -> Tensor:
        file = Path(self.raw_folder, name)
        packed = file.with_name(name + ".gz")
        if not file.is_file() and packed.is_file():
            self._unpack(packed, file)
        if not file.is_file():
            raise RuntimeError(
                f"Dataset not found: there is no {file} nor {packed.name}. Use download=True, or put the file there"
            )
        return _read_idx(file, ndim)

    @staticmethod
    def _unpack(packed: Path, file: Path) -> None:
        part = file.with_name(file.name + ".part")
        with gzip.open(packed, "rb") as source, open(part, "wb") as to:
            shutil.copyfileobj(source, to)
        part.replace(file)

    def download(self) -> None:
        """Fetches the files that are missing."""
        for name, md5 in self.md5.items():
            file = Path(self.raw_folder, name)
            if not file.is_file():
                packed = file.with_name(name + ".gz")
                _fetch([mirror + packed.name for mirror in self.mirrors], packed, md5)
                self._unpack(packed, file)

    @property
    def raw_folder(self) -> str:
        """The folder of the files."""
        return os.path.join(str(self.root), type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class by its name."""
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._changed(_picture(self.data[index]), int(self.targets[index].item()))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Articles of clothing in MNIST's format (Xiao, Rasul, Vollgraf 2017)."""

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }
    classes: ClassVar[list[str]] = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Kuzushiji characters in MNIST's format (Clanuwat et al. 2018)."""

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "bdb82020997e1d708af4cf47b453dcf7",
        "train-labels-idx1-ubyte": "e144d726b3acfaa3e44228e80efcd344",
        "t10k-images-idx3-ubyte": "5c965bf0a639b31b8f53240b1b52f4d7",
        "t10k-labels-idx1-ubyte": "7320c461ea6c1c855c0b718fb2a4b134",
    }
    classes: ClassVar[list[str]] = "o ki su tsu na ha ma ya re wo".split()


# ---- CIFAR


class _Array:
    """A NumPy array inside a pickle, as its state: version, shape, dtype, order, bytes."""

    raw: bytes = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.raw = state[-1]


class _Dtype:
    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _CifarReader(pickle.Unpickler):
    """Reads dicts of lists, bytes and NumPy arrays without NumPy, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return lambda *args: _Array()
        if module == "numpy" and name in ("ndarray", "dtype"):
            return {"ndarray": _Array, "dtype": _Dtype}[name]
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in protocol 2
            return lambda text, encoding: text.encode(encoding)
        raise pickle.UnpicklingError(f"a CIFAR file does not need {module}.{name}: refused")


def _read_cifar(file: Path) -> dict[bytes, Any]:
    try:
        with open(file, "rb") as f:
            found = _CifarReader(f, encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError) as wrong:
        raise RuntimeError(
            f"{file} is not a file of CIFAR: its {file.stat().st_size} bytes are not a pickle of images ({wrong})."
            " Delete it and use download=True"
        ) from wrong
    if not isinstance(found, dict):
        raise RuntimeError(f"{file} is not a file of CIFAR: a {type(found).__name__}")
    return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


class CIFAR10(VisionDataset):
    """Images of 10 classes, 32 x 32 x 3: 50,000 and 10,000 (Krizhevsky 2009).

    The files lie in ``root/cifar-10-batches-py``.  data: uint8 (N, 32, 32, 3); targets: a list of ints.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    md5 = "c58f30108f718f92721af3b95e74349a"
    files: ClassVar[dict[bool, list[str]]] = {
        True: [f"data_batch_{i}" for i in range(1, 6)],
        False: ["test_batch"],
    }
    meta, names, labels = "batches.meta", b"label_names", b"labels"

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        parts: list[Tensor] = []
        self.targets: list[int] = []
        for name in self.files[train]:
            pixels, labels = self._batch(self._file(name))
            parts.append(pixels)
            self.targets += labels
        self.data = _core.cat(parts)
        names = _read_cifar(self._file(self.meta)).get(self.names)
        if not isinstance(names, list):
            raise RuntimeError(f"{self._file(self.meta)} is not a file of CIFAR: it has no {self.names.decode()}")
        self.classes = [name if isinstance(name, str) else bytes(name).decode() for name in names]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _file(self, name: str) -> Path:
        file = Path(str(self.root), self.base_folder, name)
        if not file.is_file():
            raise RuntimeError(
                f"Dataset not found: there is no {file}. Use download=True, or unpack {os.path.basename(self.url)}"
                f" in {self.root}"
            )
        return file

    def _batch(self, file: Path) -> tuple[Tensor, list[int]]:
        found = _read_cifar(file)
        data, labels = found.get(b"data"), found.get(self.labels)
        if not isinstance(data, _Array) or not isinstance(labels, list):
            raise RuntimeError(f"{file} is not a file of CIFAR: it has no data or no {self.labels.decode()}")
        if len(data.raw) != 3072 * len(labels):
            raise RuntimeError(
                f"{file} has {len(data.raw)} bytes of pixels for {len(labels)} images; {3072 * len(labels)} are needed"
            )
        pixels = _core.asarray(bytearray(data.raw), dtype=_core.uint8).reshape(-1, 3, 32, 32)
        return pixels.permute(0, 2, 3, 1).contiguous(), labels

    def download(self) -> None:
        """Fetches and unpacks the archive where its files are missing."""
        root = Path(str(self.root))
        if all((root / self.base_folder / name).is_file() for part in self.files.values() for name in part):
            return
        archive = root / os.path.basename(self.url)
        _fetch([self.url], archive, self.md5)
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._changed(_picture(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """CIFAR10 with 100 classes, in ``root/cifar-100-python``."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    files: ClassVar[dict[bool, list[str]]] = {True: ["train"], False: ["test"]}
    meta, names, labels = "meta", b"fine_label_names", b"fine_labels"


# ---- folders and made-up images


def _load_image(path: str) -> Any:
    """The RGB image of a file.  Needs Pillow."""
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")


class DatasetFolder(VisionDataset):
    """Files by class: ``root/class/.../file``.  Classes are the folders of ``root`` in sorted order.

    extensions: endings of the files to take; or is_valid_file(path).  Exactly one of them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: Sequence[str] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        if (extensions is None) == (is_valid_file is None):
            raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(str(self.root))
        endings = tuple(extensions or ())
        valid = is_valid_file or (lambda path: path.lower().endswith(endings))
        self.samples: list[tuple[str, int]] = []
        for name in self.classes:
            found = [
                os.path.join(folder, file)
                for folder, _, files in sorted(os.walk(os.path.join(str(self.root), name), followlinks=True))
                for file in sorted(files)
                if valid(os.path.join(folder, file))
            ]
            if not found and not allow_empty:
                raise FileNotFoundError(
                    f"Found no valid file for the classes {name}."
                    + (f" Supported extensions are: {', '.join(extensions)}" if extensions else "")
                )
            self.samples += [(path, self.class_to_idx[name]) for path in found]
        self.targets = [target for _, target in self.samples]

    def find_classes(self, directory: str) -> tuple[list[str], dict[str, int]]:
        """The names of the folders, and the number of each."""
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        if not classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
        return classes, {name: i for i, name in enumerate(classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._changed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Image files by class: ``root/class/.../file.png``, read by Pillow as RGB."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = _load_image,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMAGE_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples


class FakeData(VisionDataset):
    """``size`` images of normal noise with random classes.  Image i depends only on i and ``random_offset``."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform = None,
        target_transform: Transform = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        generator = _core.Generator().manual_seed(index + self.random_offset)
        pixels = _core.randn(*self.image_size, generator=generator).mul(255).clamp(0, 255).to(_core.uint8)
        target = int(_core.randint(0, self.num_classes, (1,), generator=generator).item())
        image = pixels[0] if self.image_size[0] == 1 else pixels.permute(1, 2, 0)
        return self._changed(_picture(image), target)

    def __len__(self) -> int:
        return self.size
