"""The ctypes declarations agree with the headers of the C interface, and the library is found where it should be."""

import ctypes
import pathlib
import re
import subprocess
import sys

import pytest
import tutti_collectives
from tutti_collectives import _declarations, _library, datatypes, errors
from tutti_collectives._calls import Collective

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = [ROOT / "include/tutti/tutti.h", *sorted((ROOT / "include/tutti/c").glob("*.h"))]
TEXT = re.sub(r"/\*.*?\*/", " ", "\n".join(path.read_text() for path in HEADERS), flags=re.S)
# How the headers write each type of an argument, a result or a field.
C_TYPES = {
    "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64,
    "int32_t": ctypes.c_int32,
    "tutti_status_t": ctypes.c_int32, "void": None, "int": ctypes.c_int, "const char*": ctypes.c_char_p,
    "char**": ctypes.POINTER(ctypes.c_void_p), "char*": ctypes.c_void_p, "size_t*": ctypes.POINTER(ctypes.c_size_t),
    "int*": ctypes.POINTER(ctypes.c_int), "uint32_t*": ctypes.POINTER(ctypes.c_uint32),
    "const uint32_t*": ctypes.POINTER(ctypes.c_uint32), "const uint64_t*": ctypes.POINTER(ctypes.c_uint64),
    "void*": ctypes.c_void_p, "const void*": ctypes.c_void_p,
    "tutti_allgather_fn": _declarations.AllgatherFunction, "tutti_counter_fn": _declarations.CounterFunction,
    "tutti_completion_fn": _declarations.CompletionFunction,
    "tutti_request_t* const*": ctypes.POINTER(ctypes.c_void_p),
}
for _name, _structure in _declarations.STRUCTURES.items():
    C_TYPES[f"{_name}_t*"] = C_TYPES[f"const {_name}_t*"] = ctypes.POINTER(_structure)
for _handle in ("comm", "request", "prepared"):
    C_TYPES[f"tutti_{_handle}_t*"] = C_TYPES[f"const tutti_{_handle}_t*"] = ctypes.c_void_p
    C_TYPES[f"tutti_{_handle}_t**"] = ctypes.POINTER(ctypes.c_void_p)


def functions_of_headers():
    """{name: (result, [argument])} of every function, by the types' names in C."""
    found = {}
    for result, name, inside in re.findall(r"TUTTI_C_EXPORT\s+([\w\s*]+?)\s*\b(tutti_\w+)\(([^)]*)\);", TEXT):
        arguments = [] if inside.strip() == "void" else [" ".join(one.split()) for one in inside.split(",")]
        found[name] = (result.strip(), [re.sub(r"\s*\w+$", "", one) for one in arguments])
    return found


def enumerators(first, last):
    """{name without prefix: value} of the enumerators from one to another."""
    values = {name: int(value) for name, value in re.findall(r"\bTUTTI_(\w+) = (\d+)", TEXT)}
    names = list(values)
    return {name: values[name] for name in names[names.index(first):names.index(last) + 1]}


def test_headers_areReadAsAWhole():
    code = re.sub(r"^#.*$", "", TEXT, flags=re.M)
    assert len(functions_of_headers()) == code.count("TUTTI_C_EXPORT") > len(_declarations.FUNCTIONS)


@pytest.mark.parametrize("name", _declarations.FUNCTIONS)
def test_function_hasResultAndArgumentsOfTheHeader(name):
    result, arguments = functions_of_headers()[name]
    declared_result, declared_arguments = _declarations.FUNCTIONS[name]
    assert declared_result == C_TYPES[result]
    assert declared_arguments == [C_TYPES[one] for one in arguments]


@pytest.mark.parametrize("name", _declarations.STRUCTURES)
def test_structure_hasFieldsOfTheHeader(name):
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name}_t;", TEXT, re.S).group(1)
    if name == "tutti_unique_id":
        assert re.sub(r"\s+", " ", body).strip() == "char text[128];"
        assert ctypes.sizeof(_declarations.UniqueIdText) == 128
        return
    fields = [re.fullmatch(r"(.*?)\s*(\w+)", " ".join(one.split())).groups() for one in body.split(";") if one.strip()]
    declared = [(field, kind) for field, kind in _declarations.STRUCTURES[name]._fields_]
    assert declared == [(field, C_TYPES[kind]) for kind, field in fields]
    assert _declarations.STRUCTURES[name]().size == ctypes.sizeof(_declarations.STRUCTURES[name])


@pytest.mark.parametrize("kind, first, last", [
    (errors.Code, "OK", "INTERNAL"), (datatypes.DataType, "INT8", "FLOAT64"),
    (datatypes.Operation, "SUM", "PREMULTIPLIED_SUM"), (Collective, "BARRIER", "REDUCE_SCATTERV")])
def test_enumeration_hasValuesOfTheHeader(kind, first, last):
    assert {one.name: int(one) for one in kind} == enumerators(first, last)


def test_package_hasTheVersionOfTheLibraryAndOfCMake():
    project = re.search(r"project\(tutti VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    assert tutti_collectives.__version__ == project
    assert _library.library().functions.tutti_version().decode() == project


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False,
                          env={"PYTHONPATH": str(ROOT / "bindings/python"), "PATH": "/usr/bin:/bin", **environment})


def test_import_loadsNeitherLibraryNorNumpy():
    done = python("import sys, tutti_collectives as t; from tutti_collectives import _library\n"
                  "assert _library._loaded is None and 'numpy' not in sys.modules and 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_missingLibrary_errorNamesPlacesAndRemedy():
    done = python("import tutti_collectives as t; t.Communicator()", TUTTI_LIBRARY="/nowhere/libtutti.so")
    assert "LibraryNotFoundError: libtutti is not usable from TUTTI_LIBRARY=/nowhere/libtutti.so" in done.stderr
    assert "install the wheel of tutti-collectives, or build Tutti and set TUTTI_LIBRARY" in done.stderr


def test_missingLibrary_withoutVariable_errorNamesEveryPlace():
    done = python("import tutti_collectives as t; from tutti_collectives import _library\n"
                  "_library.SONAME = 'libtutti_absent.so.0'; t.library_path()")
    for place in ("TUTTI_LIBRARY (not set)", "the package (", "the dynamic linker (libtutti_absent.so.0)"):
        assert place in done.stderr, done.stderr


def test_libraryWithoutAFunction_errorNamesIt():
    done = python("import tutti_collectives as t; t.library_path()", TUTTI_LIBRARY="libc.so.6")
    assert "libtutti from TUTTI_LIBRARY=libc.so.6 is too old for this package" in done.stderr
    assert "tutti_version" in done.stderr
