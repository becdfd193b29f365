#!/usr/bin/env python3
"""Each rule of check_structure.py sees a planted violation, and a clean tree passes."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_structure  # noqa: E402
import cpp_text  # noqa: E402

LAYERS = """
tutti_layer(base SOURCES base/a.cpp)
tutti_layer(wire SOURCES wire/a.cpp USES base LINKS X::y)  # a comment (with brackets)
tutti_layer(protocol SOURCES protocol/a.cpp USES base)
tutti_layer(engine SOURCES engine/a.cpp USES base protocol)
tutti_layer(device/ip SOURCES device/ip/a.cpp USES base wire)
tutti_layer(runtime SOURCES runtime/a.cpp USES base engine device/ip)
"""
HEADER = "// What it is for.\n#pragma once\n"


class Structure(unittest.TestCase):
    def violations(self, files, checks=("includes", "calls", "headers", "lengths", "definitions",
                                        "texts")):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {"src/CMakeLists.txt": LAYERS, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            checker = check_structure.Checker(root)
            for check in checks:
                getattr(checker, "check_" + check)()
            return checker.violations

    def assert_clean(self, name, text):
        self.assertEqual(self.violations({name: text}), [])

    def assert_seen(self, name, text, line, rule):
        found = self.violations({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:{line}: {rule}: "), found[0])

    def test_lower_layers_may_be_included(self):
        self.assert_clean("src/engine/a.cpp", '#include "base/a.hpp"\n#include "protocol/b.hpp"\n'
                                              '#include "device/device.hpp"\n#include <atomic>\n'
                                              '#include "tutti/status.hpp"\n')
        self.assert_clean("src/device/ip/a.cpp", '#include "wire/a.hpp"\n#include <sys/socket.h>\n'
                                                 '#include "device/ip/b.hpp"\n')
        self.assert_clean("src/runtime/a.cpp", '#include "tutti/communicator.hpp"\n#include <chrono>\n')

    def test_upward_and_sideways_includes(self):
        self.assert_seen("src/engine/a.cpp", '\n#include "device/ip/a.hpp"\n', 2, "include")
        self.assert_seen("src/protocol/a.cpp", '#include "wire/a.hpp"\n', 1, "include")
        self.assert_seen("src/protocol/a.cpp", '#include "device/device.hpp"\n', 1, "include")
        self.assert_seen("src/wire/a.cpp", '#include "runtime/a.hpp"\n', 1, "include")
        self.assert_seen("src/engine/a.cpp", '#include "tutti/communicator.hpp"\n', 1, "include")
        self.assert_seen("src/engine/a.cpp", '#include "b.hpp"\n', 1, "include")
        self.assert_seen("include/tutti/a.hpp", HEADER + '#include "base/a.hpp"\n', 3, "include")
        self.assert_seen("src/stray/a.cpp", "int a;\n", 1, "layer")

    def test_system_headers(self):
        for header in ["sys/socket.h", "thread", "chrono", "unistd.h", "iostream", "poll.h"]:
            self.assert_seen("src/protocol/a.cpp", f"#include <{header}>\n", 1, "include")
            self.assert_seen("src/engine/a.cpp", f"#include <{header}>\n", 1, "include")
        self.assert_seen("bindings/a.cpp", "#include <netinet/in.h>\n", 1, "include")

    def test_clock(self):
        self.assert_seen("src/engine/a.cpp", "auto t = std::chrono::steady_clock::now();\n", 1, "clock")

    def test_banned_calls(self):
        for call in ["exit(1)", "std::abort()", "::usleep(3)", "printf(\"x\")", "srand(1)",
                     "assert(a)", "std::this_thread::sleep_for(pause)"]:
            self.assert_seen("src/runtime/a.cpp", f"void f() {{\n  {call};\n}}\n", 2, "banned call")
        self.assert_seen("src/base/a.cpp", "void f() { std::cout << 1; }\n", 1, "banned call")

    def test_calls_that_only_look_banned(self):
        self.assert_clean("src/runtime/a.cpp",
                          "// abort() in a comment\n"
                          "void Context::abort(int reason) {\n"
                          "  context->abort(reason);\n  state.abort(1);\n"
                          "  static_assert(sizeof(int) == 4);\n"
                          '  log("exit(1) in a text");\n  on_exit(2);\n}\n')

    def test_headers(self):
        self.assert_seen("src/base/a.hpp", "#pragma once\n", 1, "header")
        self.assert_seen("src/base/a.hpp", "// Why.\nint a;\n", 1, "header")
        self.assert_seen("src/base/a.hpp", HEADER + "using namespace std;\n", 3, "header")

    def test_lengths(self):
        body = "  ++a;\n" * 69
        self.assert_seen("src/base/a.cpp", f"int a;\nvoid f(int b) {{\n{body}}}\n", 2,
                         "function length")
        self.assert_clean("src/base/a.cpp", f"int a;\nvoid f() {{\n{body[:-7]}}}\n")
        self.assert_clean("src/base/a.cpp", "class A {\n" + "  int f() const { return 1; }\n" * 90 + "};\n")
        self.assert_seen("src/base/a.cpp", "int a;\n" * 701, 701, "file length")

    def test_one_definition(self):
        one = "namespace tutti::a {\nstruct Hello {\n  int x;\n};\n}\n"
        found = self.violations({"src/base/a.cpp": one, "src/base/b.cpp": one})
        self.assertEqual(len(found), 1)
        self.assertIn("src/base/b.cpp:2: one definition: tutti::a::Hello", found[0])
        other = one.replace("tutti::a", "tutti::b")
        hidden = "namespace tutti::a {\nnamespace {\nstruct Hello {};\n}\n}\n"
        declared = "namespace tutti::a {\nstruct Hello;\n}\n"
        self.assertEqual(self.violations({"src/base/a.cpp": one, "src/base/b.cpp": other,
                                          "src/base/c.cpp": hidden, "src/base/d.cpp": declared}), [])

    def test_links(self):
        text = "a [b](src/CMakeLists.txt#x) [c](https://example.org) `[d](no)`\n[e](docs/missing.md)\n"
        self.assert_seen("README.md", text, 2, "link")

    def test_paths_of_one_machine(self):
        self.assert_seen("tools/a.sh", "cd " + "/home/" + "someone/tutti\n", 1, "path")
        self.assert_clean("tools/a.sh", "cd $HOME/" + "work/tutti /usr/share\n")

    def test_format_is_checked_or_visibly_skipped(self):
        with mock.patch("shutil.which", return_value=None), \
             contextlib.redirect_stdout(io.StringIO()) as output, \
             tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src").mkdir()
            (root / "src/CMakeLists.txt").write_text(LAYERS)
            with mock.patch("sys.argv", ["check_structure.py", "--root", folder]):
                self.assertEqual(check_structure.main(), 0)
        self.assertIn("SKIPPED: the format", output.getvalue())


class Text(unittest.TestCase):
    def test_literals_and_comments_are_blank(self):
        code = cpp_text.code_only('a("{ // }"); /* {\n} */ b(\'{\', R"x({)")x", 1\'000);')
        self.assertNotIn("{", code)
        self.assertIn("1'000", code)
        self.assertEqual(code.count("\n"), 1)

    def test_outline(self):
        functions, types = cpp_text.outline(
            "namespace a {\nclass TUTTI_EXPORT B : public C {\n  void f() { if (x) { y(); } }\n};\n"
            "enum class E { one, two };\n"
            "template <typename T>\nauto g(T t) -> int {\n  auto l = [&](int i) { return i; };\n"
            "  return l(1);\n}\n}\n")
        self.assertEqual([(f.name, f.lines) for f in functions], [("f", 1), ("g", 5)])
        self.assertEqual([t.name for t in types], ["a::B", "a::E"])


if __name__ == "__main__":
    unittest.main()
