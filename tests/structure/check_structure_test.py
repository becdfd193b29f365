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
HEADER = "// Its purpose.\n#pragma once\n"


class Structure(unittest.TestCase):
    def violations(self, files, checks=("includes", "calls", "headers", "lengths", "definitions",
                                        "texts", "words", "cycles", "folders", "retries",
                                        "classes")):
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
        self.assert_clean("src/base/a.cpp", "class A {\n" + "  int f() const { return 1; }\n" * 40 + "};\n")
        self.assert_seen("src/base/a.cpp", "int a;\n" * 601, 601, "file length")

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

    def test_words(self):
        for kind, text in {
                "vague": "// Waits until nobody sends.\n", "pronoun": "// It waits for his block.\n",
                "archaic": "// Losses are mended later.\n", "row code": "// The window of K9.\n",
                "headless": "// Who waits looks there.\n", "citation": "// As the source says.\n",
                "measurements": "// Took 3 us, now 2 us.\n",
                "banner": "// ---- Request\n// -----\n"}.items():
            self.assert_seen("src/base/a.cpp", text, 1, f"words: {kind}")
        self.assert_seen("src/base/a.cpp", "int a;  ///< What is sent.\n", 1, "words: headless")
        self.assert_seen("src/base/a.cpp", "int a;\n// A limit. Where it ends is open.\n", 2,
                         "words: headless")
        self.assert_seen("src/base/a.cpp", 'auto a = "nobody answers";\n', 1, "words: vague")
        self.assert_seen("tools/a.py", 'def f():\n    """Calls what nobody has."""\n', 2,
                         "words: vague")
        self.assert_seen("tools/a.sh", "#!/bin/sh\n# Likewise here.\n", 2, "words: vague")
        self.assert_seen("docs/a.md", "Text.\n\n- What is lost is read.\n", 3, "words: headless")

    def test_words_that_only_look_wrong(self):
        self.assert_clean("src/base/a.cpp", "// What is sent?\ntemplate <typename T1> void f(T1 C11);\n"
                                            "// Ranks wait 3 us. See docs/results.md.\n")
        self.assert_clean("docs/a.md", "Run `nobody`.\n\n```\nWho is it\n```\n")
        self.assert_clean("docs/rows.md", "The window is K9.\n")

    def test_long_comments_inside_functions(self):
        text = "void f() {\n  // One is here. Two is here. Three is here.\n  g();\n}\n"
        self.assert_seen("src/base/a.cpp", text, 2, "words: long comment")
        self.assert_clean("src/base/a.cpp", text.replace(" Three is here.", ""))

    def test_test_names(self):
        self.assert_seen("tests/a.cpp", "TEST(Ring, ARankThatWaits) {}\n", 1, "words: test name")
        self.assert_seen("tests/a.cpp", f"TEST(Ring, {'x' * 71}) {{}}\n", 1, "words: test name")
        self.assert_seen("tests/a.cpp", "TEST(Ring, RowK7_holds) {}\n", 1, "words: row code")
        self.assert_clean("tests/a.cpp", "TEST(Ring, Allgather_lost_chunk_is_read) {}\n")

    def test_changelog(self):
        self.assert_seen("CHANGELOG.md", "- a\n  b\n- a\n  b\n  c\n  d\n", 3, "words: changelog")

    def test_cycles(self):
        def include(name):
            return HEADER + f'#include "{name}"\n'
        found = self.violations({"src/base/a.hpp": include("base/b.hpp"), "src/base/b.hpp": HEADER,
                                 "src/base/b.cpp": '#include "base/a.hpp"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/base/a -> src/base/b -> src/base/a", found[0])
        self.assertEqual(self.violations({"src/base/a.hpp": include("base/b.hpp"),
                                          "src/base/b.hpp": HEADER}), [])

    def test_folders(self):
        found = self.violations({f"src/base/a{i}.cpp": "int a;\n" for i in range(26)})
        self.assertEqual(found, ["src/base:1: folder: 26 files; 25 at most"])

    def test_retries(self):
        self.assert_seen("tools/a.sh", "ctest --repeat until-" + "pass:2\n", 1, "retry")

    def test_class_sizes(self):
        def body(of):
            return HEADER + "struct A {\n" + of + "};\n"
        self.assert_seen("src/base/a.hpp", body("".join(f"  int a{i} = 1;\n" for i in range(26))),
                         3, "fields")
        self.assert_clean("src/base/a.hpp", body("".join(f"  int a{i};\n" for i in range(25))
                                                 + "  static constexpr int kA = 1;\n  using B = int;\n"))
        self.assert_seen("src/base/a.hpp", body("  struct B {\n"
                         + "".join(f"    int a{i};\n" for i in range(24)) + "  };\n  B b;\n  int c, d;\n"),
                         3, "fields")
        self.assert_seen("src/base/a.hpp", body("".join(f"  int f{i}(int a = 1);\n" for i in range(41))),
                         3, "methods")

    def test_method_files(self):
        header = HEADER + "class BlockMap {\n  void f();\n};\n"
        for name, count in {"block_map.cpp": 0, "map_more.cpp": 0, "map.cpp": 0, "other.cpp": 1}.items():
            found = self.violations({"src/base/map.hpp": header,
                                     "src/base/" + name: "void BlockMap::f() {}\n"})
            self.assertEqual(len(found), count, found)

    def test_simulator_and_studies_are_above_src(self):
        files = {"sim/CMakeLists.txt": "tutti_layer(sim/fabric SOURCES a.cpp USES base)\n",
                 "sim/fabric/a.hpp": HEADER + '#include "base/a.hpp"\n'}
        self.assertEqual(self.violations(files), [])
        found = self.violations({**files, "src/base/a.cpp": '#include "sim/fabric/a.hpp"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn("src may include neither", found[0])

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


    def test_rules_are_chosen_by_name(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
             contextlib.redirect_stderr(io.StringIO()) as errors:
            root = Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "src/CMakeLists.txt").write_text(LAYERS)
            (root / "src/base/a.cpp").write_text("// Until nobody waits.\n")
            run = ["check_structure.py", "--root", folder, "--no-format"]
            for more, status in [([], 1), (["--except=words/vague"], 0), (["--only=words"], 1),
                                 (["--only=cycle"], 0), (["--counts"], 0)]:
                with mock.patch("sys.argv", run + more):
                    self.assertEqual(check_structure.main(), status, more)
            with mock.patch("sys.argv", run + ["--only=cycles"]), self.assertRaises(SystemExit):
                check_structure.main()
        self.assertIn("SKIPPED: commit subjects", out.getvalue())
        self.assertIn("     1 words/vague", out.getvalue())
        self.assertIn("unknown rules cycles", errors.getvalue())


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

    def test_classes(self):
        found = cpp_text.classes(
            "namespace a {\nclass B final : public C {\n public:\n  B() : x_{1}, y_{2} {}\n  ~B();\n"
            "  bool operator==(const B&) const = default;\n  std::function<void(int)> call_;\n"
            "  static constexpr int kA = 3;\n  using D = int;\n  friend class E;\n"
            "  std::map<int, int> x_ = {{1, 2}}, y_;\n  int bits : 3;\n  Status f(int a = g()) const;\n"
            "  struct Inner {\n    int one{f()};\n    void two() { if (a) { b(); } }\n  };\n"
            "  Inner inner_;\n  std::atomic<bool> z_{false};\n};\n}\n")
        self.assertEqual([c.path for c in found], [["B"], ["B", "Inner"]])
        self.assertEqual([f[1] for f in found[0].fields], ["call_", "x_", "y_", "bits", "inner_", "z_"])
        self.assertEqual(found[0].methods, ["B", "~B", "operator_", "f"])
        self.assertEqual((len(found[1].fields), found[1].methods), (1, ["two"]))

    def test_definitions(self):
        found = cpp_text.definitions("namespace a {\nstd::map<int, B::C> B::f(int) const {\n}\n"
                                     "B::B() : x_(1) {\n}\nint g() {\n  return B::h();\n}\n}\n")
        self.assertEqual(found, [(["B"], "f", 2), (["B"], "B", 4)])


if __name__ == "__main__":
    unittest.main()
