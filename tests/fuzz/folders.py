"""Saved folders that were damaged or forged, and files of inputs for them."""

import json
import shutil
import zipfile
from pathlib import Path
from random import Random

import numpy as np

import collage_dsl as collage
from collage_dsl.realization.signature import Signature, checksum_of
from collage_dsl.saved import SIGNATURE
from tests.fuzz.protobuf import NUMBERS, damaged
from tests.fuzz.tables import in_place_of
from tests.models import small_convolution

NATIVE = Path(__file__).parent.parent.parent / "specs" / "native.collage"
FILES = ("model.so", SIGNATURE, "plan.json", "report.json")
VALUES = (None, True, -1, 0, 2**70, 1e999, "", "x", "\0", "float99", [], {}, [[]], "é" * 999)


def build(folder: Path, channels: int) -> Path:
    """A saved model; compiled once for all cases that use `folder`."""
    if not folder.exists():
        model = small_convolution(channels)
        compiled = collage.compile(model, [NATIVE], cost=lambda _: 1e-6, race_seconds=0.01)
        compiled.save(folder)
    return folder


def damage(folder: Path, other: Path, chosen: Random) -> None:
    """Change a saved folder. Some files come from `other`, the folder of another model."""
    path = folder / chosen.choice(FILES)
    match chosen.randrange(8):
        case 0:
            path.write_bytes(damaged(path.read_bytes(), chosen))
        case 1:
            shutil.copy(other / path.name, path)
        case 2:
            path.unlink()
            in_place_of(path, chosen)
        case 3:
            path.unlink()
            path.symlink_to(other / path.name)
        case 4:
            (folder / "extra.so").write_bytes(b"extra")
        case 5:
            change_signature(folder / SIGNATURE, chosen, forged=False)
        case 6:
            change_signature(folder / SIGNATURE, chosen, forged=True)
        case 7:
            for_another_machine(folder / "model.so", chosen)
            forge(folder / SIGNATURE, library=checksum_of(folder / "model.so"))


MACHINE = 18
"""Where the header of an ELF file has the number of its machine."""


def for_another_machine(library: Path, chosen: Random) -> None:
    content = bytearray(library.read_bytes())
    content[MACHINE] = chosen.choice((3, 40, 183, 243))  # i386, ARM, AArch64, RISC-V
    library.write_bytes(content)


def change_signature(path: Path, chosen: Random, *, forged: bool) -> None:
    """Give a field another value; with a right checksum where `forged`."""
    fields = json.loads(path.read_text())
    holder = chosen.choice((fields, fields, fields["inputs"][0], fields["outputs"][0]))
    holder[chosen.choice(sorted(holder))] = chosen.choice((*VALUES, list(NUMBERS[:3])))
    path.write_text(json.dumps(fields))
    if forged:
        forge(path)


def forge(path: Path, **changes: object) -> None:
    fields = {**json.loads(path.read_text()), **changes}
    path.write_text(Signature.signed(fields))


def write_inputs(path: Path, chosen: Random) -> None:
    """An `.npz` file of wrong arrays, or nearly one."""
    shape = chosen.choice([(1, 3, 12, 12), (10**12,), (2**40, 2**20), (0,), ()])
    dtype = chosen.choice(["<f4", "<f8", "|O", "|S9", ">f4", "<U3", "|V8", "?"])
    header = {"descr": dtype, "fortran_order": chosen.random() < 0.2, "shape": shape}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in chosen.choices(["x", "x", "y", "\0", "é", "../x"], k=chosen.randint(1, 2)):
            if name in {each.removesuffix(".npy") for each in archive.namelist()}:
                continue
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]
                file.write(bytes(chosen.choice([0, 4, 1728, 1 << 20])))
    if chosen.random() < 0.4:
        path.write_bytes(damaged(path.read_bytes(), chosen))
