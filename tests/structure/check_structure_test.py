#!/usr/bin/env python3
"""Tests that each rule of check_structure.py finds a planted violation, and that a clean tree passes."""

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_structure  # noqa: E402
import cpp_text  # noqa: E402
from checks import bounds, commits, methods, prose, waits  # noqa: E402
from checks.tree import PRODUCT, Tree  # noqa: E402

LAYERS = """
tutti_layer(base SOURCES base/a.cpp)
tutti_layer(wire SOURCES wire/a.cpp USES base LINKS X::y)  # a comment (with brackets)
tutti_layer(protocol SOURCES protocol/a.cpp USES base)
tutti_layer(engine SOURCES engine/a.cpp USES base protocol)
tutti_layer(device/ip SOURCES device/ip/a.cpp USES base wire)
tutti_layer(runtime/bootstrap SOURCES runtime/bootstrap/a.cpp USES base)
tutti_layer(runtime SOURCES runtime/a.cpp USES base engine device/ip runtime/bootstrap)
"""
ABOVE = {"sim/CMakeLists.txt": "tutti_layer(sim/fabric SOURCES fabric/a.cpp USES base)\n"
                               "tutti_layer(sim/simulation SOURCES simulation/a.cpp USES base engine sim/fabric)\n",
         "studies/CMakeLists.txt": "tutti_layer(studies/traffic SOURCES traffic/a.cpp USES sim/fabric)\n"}
HEADER = "// Purpose of this file.\n#pragma once\n"
RULES = [name for name in check_structure.RULES if name != "format"]


@contextlib.contextmanager
def tree_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {"src/CMakeLists.txt": LAYERS, **ABOVE, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        yield root


class Structure(unittest.TestCase):
    def violations(self, files, rules=tuple(RULES)):
        with tree_of(files) as root:
            tree = Tree(root)
            for rule in rules:
                check_structure.RULES[rule](tree)
            return [str(one) for one in tree.violations]

    def assert_clean(self, name, text):
        self.assertEqual(self.violations({name: text}), [])

    def assert_seen(self, name, text, line, rule):
        found = self.violations({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:{line}: {rule}: "), found[0])


class Includes(Structure):
    def test_include_of_a_lower_layer_is_allowed(self):
        self.assert_clean("src/engine/a.cpp", '#include "base/a.hpp"\n#include "protocol/b.hpp"\n'
                                              '#include "device/device.hpp"\n#include <atomic>\n'
                                              '#include "tutti/status.hpp"\n')
        self.assert_clean("src/device/ip/a.cpp", '#include "wire/a.hpp"\n#include <sys/socket.h>\n'
                                                 '#include "device/ip/b.hpp"\n')
        self.assert_clean("src/runtime/a.cpp", '#include "tutti/communicator.hpp"\n#include <chrono>\n')

    def test_include_of_an_upper_or_equal_layer_is_a_violation(self):
        self.assert_seen("src/engine/a.cpp", '\n#include "device/ip/a.hpp"\n', 2, "include")
        self.assert_seen("src/protocol/a.cpp", '#include "wire/a.hpp"\n', 1, "include")
        self.assert_seen("src/protocol/a.cpp", '#include "device/device.hpp"\n', 1, "include")
        self.assert_seen("src/wire/a.cpp", '#include "runtime/a.hpp"\n', 1, "include")
        self.assert_seen("src/engine/a.cpp", '#include "tutti/communicator.hpp"\n', 1, "include")
        self.assert_seen("src/engine/a.cpp", '#include "b.hpp"\n', 1, "include")
        self.assert_seen("include/tutti/a.hpp", HEADER + '#include "base/a.hpp"\n', 3, "include")
        self.assert_seen("src/stray/a.cpp", "int a;\n", 1, "include")

    def test_sub_folder_belongs_to_its_layer_unless_declared(self):
        self.assert_clean("src/runtime/progress/a.cpp", '#include "runtime/communicator/b.hpp"\n'
                                                        '#include "tutti/communicator.hpp"\n'
                                                        '#include "runtime/bootstrap/b.hpp"\n')
        self.assert_clean("src/runtime/bootstrap/store/a.cpp", '#include "runtime/bootstrap/b.hpp"\n'
                                                               '#include "tutti/communicator.hpp"\n')
        self.assert_seen("src/runtime/bootstrap/a.cpp", '#include "runtime/b.hpp"\n', 1, "include")
        self.assert_seen("src/engine/multicast/a.cpp", "#include <thread>\n", 1, "include")

    def test_layers_above_src_may_include_src_but_not_the_reverse(self):
        self.assert_clean("sim/simulation/a.cpp", '#include "engine/a.hpp"\n#include "sim/fabric/b.hpp"\n'
                                                  '#include "device/device.hpp"\n#include "tutti/communicator.hpp"\n')
        self.assert_clean("studies/traffic/a.cpp", '#include "sim/fabric/b.hpp"\n')
        self.assert_seen("studies/traffic/a.cpp", '#include "sim/simulation/b.hpp"\n', 1, "include")
        self.assert_seen("sim/fabric/a.cpp", '#include "studies/traffic/b.hpp"\n', 1, "include")
        self.assert_seen("sim/stray/a.cpp", "int a;\n", 1, "include")
        self.assert_seen("src/engine/a.cpp", '#include "sim/fabric/b.hpp"\n', 1, "include")
        self.assert_seen("src/runtime/a.cpp", '#include "studies/traffic/b.hpp"\n', 1, "include")
        self.assert_seen("src/CMakeLists.txt", LAYERS + "tutti_layer(world SOURCES a.cpp USES sim/fabric)\n", 1,
                         "include")

    def test_layer_of_src_with_the_name_of_a_folder_above(self):
        own = LAYERS + "tutti_layer(sim SOURCES sim/a.cpp)\ntutti_layer(world SOURCES world/a.cpp USES sim)\n"
        self.assertEqual(self.violations({"src/CMakeLists.txt": own, "src/sim/topology.hpp": HEADER,
                                          "src/world/a.cpp": '#include "sim/topology.hpp"\n'}), [])

    def test_cycle_inside_a_layer_is_a_violation(self):
        files = {"src/engine/a.hpp": HEADER, "src/engine/a.cpp": '\n#include "engine/b.hpp"\n',
                 "src/engine/b.hpp": HEADER + '#include "engine/c.hpp"\n',
                 "src/engine/c.hpp": HEADER + '#include "engine/a.hpp"\n'}
        self.assertEqual(self.violations(files), [
            "src/engine/a.cpp:2: cycle: engine/a -> engine/b -> engine/c -> engine/a"])
        files["src/engine/c.hpp"] = HEADER
        self.assertEqual(self.violations(files), [])
        self.assertEqual(self.violations({"sim/fabric/a.hpp": HEADER + '#include "sim/fabric/b.hpp"\n',
                                          "sim/fabric/b.hpp": HEADER + '#include "sim/fabric/a.hpp"\n'}), [
            "sim/fabric/a.hpp:3: cycle: sim/fabric/a -> sim/fabric/b -> sim/fabric/a"])

    def test_system_header_in_pure_code_is_a_violation(self):
        for header in ["sys/socket.h", "thread", "chrono", "unistd.h", "iostream", "poll.h"]:
            self.assert_seen("src/protocol/a.cpp", f"#include <{header}>\n", 1, "include")
            self.assert_seen("src/engine/a.cpp", f"#include <{header}>\n", 1, "include")
        self.assert_seen("bindings/a.cpp", "#include <netinet/in.h>\n", 1, "include")

class Code(Structure):
    def test_clock_in_pure_code_is_a_violation(self):
        self.assert_seen("src/engine/a.cpp", "auto t = std::chrono::steady_clock::now();\n", 1, "clock")

    def test_banned_calls_are_violations(self):
        for call in ["exit(1)", "std::abort()", "::usleep(3)", "printf(\"x\")", "srand(1)",
                     "assert(a)", "std::this_thread::sleep_for(pause)"]:
            found = self.violations({"src/runtime/a.cpp": f"void f() {{\n  {call};\n}}\n"}, ["banned call"])
            self.assertEqual(len(found), 1, call)
            self.assertTrue(found[0].startswith("src/runtime/a.cpp:2: banned call: "), found[0])
        self.assert_seen("src/base/a.cpp", "void f() { std::cout << 1; }\n", 1, "banned call")

    def test_waits_that_are_not_listed_are_violations(self):
        for call in ["changed_.wait(lock)", "::poll(entries.data(), 2, -1)", "poll(&entry, 1, -1)", "::epoll_wait(e, v, 1, -1)",
                     "device::wait_events(e, v, t)", "::select(1, a, b, c, d)", "recvfrom(s, b, 1, 0, a, n)", "::read(fd, b, 1)",
                     "recv(socket_.fd(), b, 1, 0)", "accept4(s, a, n, 0)", "connect(socket.fd(), a, 1)", "thread_.join()",
                     "::flock(fd, 1)", "::fcntl(fd, F_SETLKW, &l)", "syscall(SYS_futex, a)", "::waitpid(p, &s, 0)",
                     "SSL_read_ex(s, b, 1, &n)", "std::ifstream file(path)", "std::future<int> f", "::sched_yield()",
                     "::sem_wait(&s)", "::open(path, 0)", "library_.get(a, b)", "getaddrinfo(a, b, c, d)"]:
            self.assert_seen("src/runtime/a.cpp", f"void f() {{\n  {call};\n}}\n", 2, "wait")
        self.assert_seen("bindings/c/a.cpp", "int f(R* r) { return r->wait_for(3); }\n", 1, "wait")

    def test_calls_that_resemble_waits_are_allowed(self):
        self.assert_clean("src/runtime/a.cpp", "// thread.join() and ::read(fd) in a comment\n"
                                               "bool A::poll(Instant now) { return context.poll(now); }\n"
                                               "Status A::connect(const Addresses& all);\n"
                                               "bool f() { return tls_->read(into) && fmt::join(a, b) && accept(kind); }\n")
        self.assertEqual(self.violations({"src/schedule/a.cpp": "void f() { builder.wait(from, slot); }\n"}, ["wait"]), [])

    def test_waits_are_counted_by_file_and_call(self):
        body = "void f() {\n  one.join();\n  two.join();\n}\n"
        for listed, clean in (([("src/runtime/a.cpp", "join", 2, "stop")], True), ([("src/runtime/a.cpp", "join", 1, "stop")], False),
                              ([("src/runtime/a.cpp", "join", 2, "s"), ("src/runtime/a.cpp", "poll", 1, "s")], False)):
            with tree_of({"src/runtime/a.cpp": body}) as root:
                tree = Tree(root)
                waits.check_waits(tree, listed)
                self.assertEqual([str(one) for one in tree.violations] == [], clean, listed)

    def test_every_listed_wait_is_there_once_and_says_what_ends_it(self):
        keys = [(file, call) for file, call, _, _ in waits.LISTED]
        self.assertEqual(len(keys), len(set(keys)))
        for file, call, times, end in waits.LISTED:
            self.assertGreater(times, 0, file)
            self.assertGreater(len(end), 3, (file, call))

    def test_wait_that_vanished_is_a_violation(self):
        with tree_of({"src/runtime/a.cpp": "int a;\n", "tests/structure/checks/waits.py": ""}) as root:
            tree = Tree(root)
            waits.check_waits(tree, [("src/runtime/gone.cpp", "poll", 1, "a test")])
            self.assertEqual(len(tree.violations), 1)

    def test_calls_that_resemble_banned_ones_are_allowed(self):
        self.assert_clean("src/runtime/context.cpp",
                          "// abort() in a comment\n"
                          "void Context::abort(int reason) {\n"
                          "  context->abort(reason);\n  state.abort(1);\n"
                          "  static_assert(sizeof(int) == 4);\n"
                          '  log("exit(1) in a text");\n  on_exit(2);\n}\n')

    def test_headers_without_purpose_or_pragma_are_violations(self):
        self.assert_seen("src/base/a.hpp", "#pragma once\n", 1, "header")
        self.assert_seen("src/base/a.hpp", "// Purpose.\nint a;\n", 1, "header")
        self.assert_seen("src/base/a.hpp", HEADER + "using namespace std;\n", 3, "header")

    def test_long_functions_and_files_are_violations(self):
        body = "  ++a;\n" * 69
        self.assert_seen("src/base/a.cpp", f"int a;\nvoid f(int b) {{\n{body}}}\n", 2,
                         "function length")
        self.assert_clean("src/base/a.cpp", f"int a;\nvoid f() {{\n{body[:-7]}}}\n")
        self.assert_clean("src/base/a.cpp", "class A {\n" + "  int f() const {\n    return 1;\n  }\n" * 30 + "};\n")
        self.assert_seen("src/base/a.cpp", "int a;\n" * 601, 601, "file length")

    def test_large_folders_are_violations(self):
        many = {f"src/base/{number}.txt": "" for number in range(26)}
        self.assertEqual(self.violations(many), ["src/base:1: folder: 26 files; 25 at most"])
        self.assertEqual(self.violations({name.replace("base", "collectives"): "" for name in many}), [])
        self.assertEqual(self.violations({name.replace("base", "base/sub/" + name[9]): "" for name in many}), [])

    def test_classes_with_many_fields_or_methods_are_violations(self):
        fields = "".join(f"  int field_{number} = {{}};\n" for number in range(25))
        methods_ = "".join(f"  int method_{number}() const;\n" for number in range(40))
        self.assert_clean("src/base/a.hpp", HEADER + f"class A {{\n{methods_}{fields}}};\n")
        self.assert_seen("src/base/a.hpp", HEADER + f"class A {{\n{fields}  bool more_;\n}};\n", 3, "fields")
        self.assert_seen("src/base/a.hpp", HEADER + f"class A {{\n{methods_}  ~A();\n}};\n", 3, "methods")

    def test_fields_of_value_members_count_with_the_class(self):
        half = "".join(f"    int field_{number};\n" for number in range(13))
        text = HEADER + f"class A {{\n  struct B {{\n{half}  }};\n  B one_;\n  B two_;\n}};\n"
        self.assert_seen("src/base/a.hpp", text, 3, "fields")
        self.assert_clean("src/base/a.hpp", text.replace("B two_", "std::vector<B> two_"))

    def test_exceptions_are_few_and_have_reasons(self):
        for table, most in ((bounds.EXCEPTIONS, 3), (methods.EXCEPTIONS, 3)):
            self.assertLessEqual(len(table), most)
            self.assertTrue(all(reason for reason in table.values()))

    def test_exceptions_are_needed(self):
        tree = Tree(Path(__file__).resolve().parents[2])
        beyond = {kind.name for name, _ in tree.sources(*PRODUCT) for kind in tree.outline(name).classes
                  if kind.all_fields > bounds.MAX_FIELDS or len(kind.methods) > bounds.MAX_METHODS}
        beyond |= {name for name, text in tree.sources(*PRODUCT) if text.count("\n") > bounds.MAX_FILE_LINES}
        self.assertEqual(set(bounds.EXCEPTIONS) - beyond, set())

    def test_exception_by_name(self):
        with mock.patch.dict(bounds.EXCEPTIONS, {"A": "a test", "src/base/a.hpp": "a test"}):
            text = HEADER + "class A {\n" + "  int a;\n" * 26 + "};\n"
            self.assert_clean("src/base/a.hpp", text + "int b;\n" * 600)

    def test_methods_belong_to_the_file_of_their_class(self):
        header = {"src/engine/call_planner.hpp": HEADER + "namespace n {\nclass Planner {\n  void f();\n};\n}\n"}
        method = "namespace n {\nvoid Planner::f() {}\n}\n"
        for name in ("call_planner.cpp", "call_planner_text.cpp", "planner.cpp"):
            self.assertEqual(self.violations({**header, f"src/engine/{name}": method}), [])
        for name in ("calls.cpp", "call_plannering.cpp", "call.cpp"):
            found = self.violations({**header, f"src/engine/{name}": method})
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"src/engine/{name}:2: method file: Planner::f "), found[0])
        with mock.patch.dict(methods.EXCEPTIONS, {("src/engine/calls.cpp", "Planner"): "a test"}):
            self.assertEqual(self.violations({**header, "src/engine/calls.cpp": method}), [])

    def test_methods_of_inner_and_hidden_classes(self):
        self.assert_clean("src/engine/rc_channel.cpp", "int RcChannel::Window::size() { return 1; }\n")
        self.assert_clean("src/engine/a.cpp", "namespace {\nclass Hidden {\n  void f();\n};\nvoid Hidden::f() {}\n}\n"
                                              "void detail::text() {}\n")
        self.assert_seen("src/engine/a.cpp", "template <typename T>\nvoid Stray<T>::f() {}\n", 1, "method file")

    def test_repeated_tests_are_violations(self):
        self.assert_seen("tools/a.sh", "\nctest --repeat until" + "-pass:2\n", 2, "retry")
        self.assert_clean("docs/a.md", "until" + "-pass\n")

    def test_two_types_of_one_name_are_violations(self):
        one = "namespace tutti::a {\nstruct Hello {\n  int x;\n};\n}\n"
        found = self.violations({"src/base/a.cpp": one, "src/base/b.cpp": one})
        self.assertEqual(len(found), 1)
        self.assertIn("src/base/b.cpp:2: one definition: tutti::a::Hello", found[0])
        other = one.replace("tutti::a", "tutti::b")
        hidden = "namespace tutti::a {\nnamespace {\nstruct Hello {};\n}\n}\n"
        declared = "namespace tutti::a {\nstruct Hello;\n}\n"
        self.assertEqual(self.violations({"src/base/a.cpp": one, "src/base/b.cpp": other,
                                          "src/base/c.cpp": hidden, "src/base/d.cpp": declared}), [])

    def test_broken_links_are_violations(self):
        text = "a [b](src/CMakeLists.txt#x) [c](https://example.org) `[d](no)`\n[e](docs/missing.md)\n"
        self.assert_seen("README.md", text, 2, "link")

    def test_paths_of_one_machine_are_violations(self):
        self.assert_seen("tools/a.sh", "cd " + "/home/" + "someone/tutti\n", 1, "path")
        self.assert_clean("tools/a.sh", "cd $HOME/" + "work/tutti /usr/share\n")


class Words(Structure):
    def kinds(self, name, text):
        found = [one.split(": ", 3) for one in self.violations({name: text}, rules=("words",))]
        return [(int(place.rpartition(":")[2]), kind) for place, _, kind, _ in found]

    def assert_kind(self, name, text, line, kind):
        self.assertEqual(self.kinds(name, text), [(line, kind)], text)

    def test_words_of_every_forbidden_kind_are_violations(self):
        row = "K" + "7"
        for kind, text in [("vague", "The port is free once nobody reads it."), ("vague", "Bytes, likewise."),
                           ("pronoun", "A rank waits until he is told."), ("row code", f"The chains of {row}."),
                           ("archaic", "The retransmission mends the loss."), ("archaic", "A refusal is none."),
                           ("citation", "Slots as the source prints them."), ("citation", "Table 1 of the source."),
                           ("citation", "As in the source's figures."),
                           ("headless", "Who waits polls."), ("headless", "It polls. Where it sleeps, it wakes.")]:
            for name, form in [("src/base/a.cpp", "int a;\n// {}\n"), ("src/base/a.cpp", "int a;\nint b;  // {}\n"),
                               ("src/base/a.cpp", 'int a;\nauto e = fail("{}");\n'),
                               ("src/base/a.cpp", "int a;\n/* {} */\n"), ("tools/a.sh", "a\n# {}\n"),
                               ("tools/a.py", 'a = 1  # one\nb = 2  # {}\n'), ("tools/b.py", '#!x\n"""{}"""\n'),
                               ("tools/c.py", 'f(\n    help="{}")\n'), ("cmake/a.cmake", "a()\n# {}\n"),
                               ("tests/a.scenario", "a\n# {}\n"),
                               ("acceptance/b", '#!/usr/bin/env python3\nverdict.figure(f"{{a}} {}")\n'),
                               ("docs/a.md", "# Title\n- {}\n"), ("docs/a.md", "# Title\n{}\n"),
                               ("docs/a.md", "| a | b |\n| c | {} |\n"),
                               ("acceptance/a", '#!/usr/bin/env python3\n"""{}"""\n')]:
                with self.subTest(kind=kind, name=name, form=form):
                    self.assert_kind(name, form.format(text), 2, kind)

    def test_violation_is_reported_at_the_line_of_the_word(self):
        self.assert_kind("src/base/a.cpp", "// One line and\n// another, of the ports that\n// nobody has.\n",
                         3, "vague")
        self.assert_kind("src/base/a.cpp", 'f("one "\n  "is of "\n  "nobody");\n', 3, "vague")
        self.assert_kind("docs/a.md", "One.\n\nTwo lines\nof nobody.\n", 4, "vague")

    def test_words_that_resemble_forbidden_ones_are_allowed(self):
        for text in ["// The shell's history is theirs; T is a type, Type1 another, and -O3 an option.\n",
                     "// What is it? The source of a datagram, the source rank, the source's address.\n",
                     "// False if there is none.\n", "template <int K7>\nint T1 = K7;\n", 'f("nobody");\n',
                     "// It is sent by\n// what is left of the queue.\n", "// `he` and `K7` are names.\n",
                     "// See https://example.org/K7/he.\n", "// A rank, e.g. Where, is one.\n"]:
            self.assertEqual(self.kinds("src/base/a.cpp", text), [], text)
        self.assertEqual(self.kinds("docs/a.md", "# What it is\n\n    nobody # code\n\n```\nnobody\n```\n"), [])
        self.assertEqual(self.kinds("docs/rows.md", "K" + "7 is a row, as the source says.\n"), [])
        self.assertEqual(self.kinds("tools/a.sh", "echo 'nobody' ${a#he} $# \n"), [])

    def test_relative_opening_in_small_letters(self):
        self.assert_kind("src/base/a.cpp", "int a;  ///< what is left\n", 1, "headless")
        self.assert_kind("src/base/a.cpp", "// where it ends\n", 1, "headless")
        self.assertEqual(self.kinds("src/base/a.cpp", "int a;  ///< bytes of what is left\n"), [])

    def test_headless_opening_after_a_unit_or_in_a_banner(self):
        self.assert_kind("src/base/a.cpp", "// At 1 Gbit/s. Where it waits,\n// it asks.\n", 1, "headless")
        self.assert_kind("src/base/a.cpp", "// The other rank's. Where it waits, it asks.\n", 1, "headless")
        self.assert_kind("src/base/a.cpp", "// ---- What is sent ------\n", 1, "headless")

    def test_long_comments_in_functions_are_violations(self):
        comment = "  // One, e.g. this. Two.\n  // And\n  // three.\n"
        self.assert_kind("src/base/a.cpp", f"void f() {{\n{comment}}}\n", 2, "long comment")
        self.assertEqual(self.kinds("src/base/a.cpp", f"{comment}int a;\n"), [])
        self.assertEqual(self.kinds("src/base/a.cpp", "void f() {\n  // One, e.g. this. And\n  // two.\n}\n"), [])

    def test_many_measurements_in_a_comment_are_a_violation(self):
        self.assert_kind("src/base/a.cpp", "// Before 3.5 ms, then\n// 12 %.\n", 1, "measurements")
        for text in ["// 4 KiB and 64 KiB in 2 to 50 ms.\n", '// "1 s", "2 ms".\n', "// skew=5ms death=3ms\n",
                     "// Within 3 us.\nint a;\n// Within 4 us.\n"]:
            self.assertEqual(self.kinds("src/base/a.cpp", text), [], text)

    def test_banner_on_two_lines_is_a_violation(self):
        self.assert_kind("src/base/a.cpp", "int a;\n\n// ---- Sending\n// ------------\n", 4, "banner")
        self.assertEqual(self.kinds("src/base/a.cpp", "// ---- Sending ------------\nint a;\n"), [])

    def test_unclear_names_of_tests_are_violations(self):
        long = "Sender_" + "with" * 16
        self.assert_kind("tests/a.cpp", f"int a;\nTEST_F(Suite, {long}) {{}}\n", 2, "test name")
        for name in ("ARingEnds", "WhoeverWaits", "TheRing", "AnEnd_x", "WhereItEnds", "WhatIsLeft"):
            self.assert_kind("tests/a.cpp", f"TEST(Suite, {name}) {{}}\n", 1, "test name")
        for name in ("AllgatherRing_ends", "Whole_x", "Answer_late", "Theory", "Sender_of_blocks"):
            self.assertEqual(self.kinds("tests/a.cpp", f"TEST(Suite, {name}) {{}}\n"), [], name)
        self.assert_kind("tests/a.cpp", "TEST(Suite, ChainsOf" + "K7) {}\n", 1, "row code")

    def test_long_changelog_entries_are_violations(self):
        entry = "- One\n  two\n  three\n"
        self.assertEqual(self.kinds("CHANGELOG.md", entry + entry), [])
        self.assert_kind("CHANGELOG.md", "# Changes\n\n" + entry + "  four\n" + entry, 3, "changelog")


class Commits(unittest.TestCase):
    def check(self, subjects, since=True):
        with tree_of({}) as root:
            def git(*arguments):
                return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
                                      cwd=root, check=True, capture_output=True, text=True).stdout.strip()
            git("init", "--quiet")
            git("commit", "--quiet", "--allow-empty", "--message", "Some old subject.")
            first = git("rev-parse", "HEAD")
            for subject in subjects:
                git("commit", "--quiet", "--allow-empty", "--message", subject)
            tree = Tree(root)
            with mock.patch.object(commits, "SINCE", first if since else "0" * 40):
                commits.check_commits(tree)
            return tree

    def test_subjects_of_commits_have_area_and_imperative(self):
        good = ["rc: judge loss by order of transmission", "docs, bench/peers: move", ".ci/run: " + "x" * 63]
        self.assertEqual(self.check(good).violations, [])
        for subject in ["rc: " + "x" * 69, "Results", "Judge loss", "rc: Results of the week", "rc: end with a dot.",
                        "rc:judge loss", "rc: Who waits polls"]:
            found = [str(one) for one in self.check([subject]).violations]
            self.assertEqual(len(found), 1, subject)
            self.assertRegex(found[0], r"^[0-9a-f]{7,}:1: words: commit: .*: ")

    def test_history_without_the_first_commit_is_visibly_skipped(self):
        tree = self.check(["Results"], since=False)
        self.assertEqual(tree.violations, [])
        self.assertIn("subjects of commits (no history", tree.skipped[0])


class Width(Structure):
    def test_line_wider_than_the_limit_is_a_violation(self):
        self.assert_clean("src/base/a.cpp", "// " + "x" * 97 + "\n")
        self.assert_seen("src/base/a.cpp", "\n// " + "x" * 98 + "\n", 2, "width")


class Command(unittest.TestCase):
    def run_check(self, files, *arguments):
        with tree_of(files) as root, contextlib.redirect_stdout(io.StringIO()) as output, \
             mock.patch("sys.argv", ["check_structure.py", "--root", str(root), *arguments]):
            return check_structure.main(), output.getvalue()

    def test_format_is_checked_or_visibly_skipped(self):
        with mock.patch("shutil.which", return_value=None):
            status, output = self.run_check({})
        self.assertEqual(status, 0, output)
        self.assertIn("SKIPPED: the format", output)

    def test_option_only_selects_rules(self):
        bad = {"src/base/a.hpp": "// Who reads it.\n", "src/base/b.cpp": "void f() { abort(); }\n"}
        status, output = self.run_check(bad, "--only", "words,header")
        self.assertEqual(status, 1)
        self.assertIn("src/base/a.hpp:1: words: headless: Who reads it.", output)
        self.assertIn("src/base/a.hpp:1: header: ", output)
        self.assertIn("2 source files, 2 violations", output)
        status, output = self.run_check(bad, "--except", "words,header,format")
        self.assertNotIn("words", output)
        self.assertIn("src/base/b.cpp:1: banned call: ", output)
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit):
            self.run_check(bad, "--only", "word")
        self.assertIn("no rule word: use include, ", errors.getvalue())

    def test_paths_restrict_the_report(self):
        bad = {"src/base/a.cpp": "// Who reads it.\n", "src/wire/a.cpp": "// Who reads it.\n"}
        status, output = self.run_check(bad, "--only", "words", "./src/wire")
        self.assertEqual(status, 1)
        self.assertNotIn("src/base", output)
        self.assertIn("src/wire/a.cpp:1: words", output)
        self.assertEqual(self.run_check(bad, "--only", "words", "src/engine")[0], 0)

    def test_option_counts_prints_only_numbers(self):
        bad = {"src/base/a.cpp": "// Who reads it.\n// Nobody.\n"}
        status, output = self.run_check(bad, "--only", "words/vague,words/headless,words/pronoun,path", "--counts")
        self.assertEqual(status, 0)
        self.assertTrue(output.endswith("\n     0 path\n     1 words/vague\n     0 words/pronoun\n"
                                        "     1 words/headless\n1 source files, 2 violations\n"), output)

    def test_part_of_a_rule_is_selected_by_name(self):
        bad = {"src/base/a.cpp": "// Who reads it.\n// Nobody.\n"}
        for options, found in ((["--only", "words/vague"], ["vague"]),
                               (["--except", "format,words/vague"], ["headless"]),
                               (["--except", "format,words"], []), (["--only", "words"], ["vague", "headless"])):
            status, output = self.run_check(bad, *options)
            self.assertEqual(status, 1 if found else 0, output)
            self.assertEqual([line.split(": ")[2] for line in output.splitlines() if ": words" in line], found)


class Text(unittest.TestCase):
    def test_literals_and_comments_are_blank(self):
        code = cpp_text.code_only('a("{ // }"); /* {\n} */ b(\'{\', R"x({)")x", 1\'000);')
        self.assertNotIn("{", code)
        self.assertIn("1'000", code)
        self.assertEqual(code.count("\n"), 1)

    def test_outline(self):
        outline = cpp_text.outline(
            "namespace a {\nclass TUTTI_EXPORT B : public C {\n  void f() { if (x) { y(); } }\n};\n"
            "enum class E { one, two };\n"
            "template <typename T>\nauto g(T t) -> int {\n  auto l = [&](int i) { return i; };\n"
            "  return l(1);\n}\n}\n")
        self.assertEqual([(one.name, one.lines) for one in outline.functions], [("f", 1), ("g", 5)])
        self.assertEqual([one.name for one in outline.types], ["a::B", "a::E"])

    def test_sentences(self):
        self.assertEqual([one for _, one in prose.sentences("One, e.g. this\nof 1.5 ms. [A] Two? - Three!\n\nFour")],
                         ["One, e.g. this\nof 1.5 ms.", "[A] Two?", "Three!", "Four"])


class Members(unittest.TestCase):
    def class_of(self, body):
        return cpp_text.outline(f"namespace n {{\nclass A : public B<int> {{\n{body}\n}};\n}}\n").classes[-1]

    def test_fields(self):
        for text, names in {
                "int a;": ["a"], "int a = f(1, 2), b{3};": ["a", "b"], "std::map<int, std::pair<A, B>> a;": ["a"],
                "std::function<void(int, char)> a = [](int x, char) { g(x); };": ["a"],
                "void (*a)(int) = nullptr;": ["a"],
                "alignas(64) std::atomic<int> a{0};": ["a"], "[[maybe_unused]] const int* const a = nullptr;": ["a"],
                "unsigned a : 3;": ["a"], "std::array<char, 4 << 2> a{};": ["a"], "char a[3][SPACE(4)] = {};": ["a"],
                "private:\n  mutable std::mutex a;\n public:\n  int b;": ["a", "b"], "static inline int a = 0;": ["a"],
                "decltype(f(1)) a;": ["a"], "union {\n  int a;\n  float b;\n};": ["a", "b"],
                "struct {\n  int x;\n} a;": ["a"], "enum class E { one } a = E::one;": ["a"], "struct T* a;": ["a"],
                "bool a = 1 < 2;\n  bool b = 3 > 2;": ["a", "b"]}.items():
            with self.subTest(text):
                self.assertEqual([name for name, _ in self.class_of(text).fields], names)
                self.assertEqual(self.class_of(text).methods, [])

    def test_methods(self):
        for text, names in {
                "void f();": ["f"], "A() = default;\n  ~A();": ["A", "~A"], "A(A&&) noexcept(true) = delete;": ["A"],
                "explicit A(int a) : a_{a}, b_(a), c_{{1, 2}} { g(); }": ["A"],
                "void f(Options o = {}) const {}": ["f"],
                "bool operator==(const A&) const = default;": ["operator=="],
                "int operator()(int) { return 1; }": ["operator()"],
                "explicit operator bool() const { return true; }": ["operator bool"],
                "void f(C* c);\n  void g(C& c) {}": ["f", "g"],
                "template <typename T>\n  static Result<T> f(std::function<void(T)> g) { return g(T{}); }": ["f"],
                "[[nodiscard]] virtual auto f() -> std::vector<int> = 0;": ["f"], "int* f(int (*g)(int));": ["f"],
                "template <int N> requires (N > 1)\n  void f();": ["f"],
                "bool operator<(const A& o) const { return a < o.a; }":
                ["operator<"]}.items():
            with self.subTest(text):
                self.assertEqual(self.class_of(text).methods, names)
                self.assertEqual(self.class_of(text).fields, [])

    def test_neither(self):
        for text in ["static constexpr int a = 1;", "constexpr static std::array<int, 2> a{1, 2};", "using B::B;",
                     "using T = std::vector<int>;", "typedef int T;", "friend class C;", "friend void f(A&);",
                     "friend bool operator==(A, A) { return true; }", "enum E { one, two };",
                     "enum class E : int { one };",
                     "class C;", "struct C {\n    int a;\n    void f();\n  };", "static_assert(sizeof(int) == 4);",
                     "static const int a = 1;", "template <typename T> class C;"]:
            with self.subTest(text):
                self.assertEqual((self.class_of(text).fields, self.class_of(text).methods), ([], []))

    def test_nested_classes(self):
        outline = cpp_text.outline(
            "class A {\n  struct B {\n    int a;\n    int b;\n    struct { int x, y; } c;\n  };\n"
            "  B one_;\n  std::unique_ptr<B> two_;\n  B* three_;\n};\nstruct A::C {\n  int a;\n};\n")
        sizes = {one.name: one.all_fields for one in outline.classes}
        self.assertEqual((sizes["A"], sizes["A::B"], sizes["A::C"]), (6, 4, 1))

    def test_definitions_outside(self):
        outline = cpp_text.outline(
            "namespace n {\nResult<std::pair<int, B>> A::f(int a) const {\n  return {a, {}};\n}\nA::A() : a_{1} {}\n"
            "A::~A() = default;\nbool A::B::operator==(const B& other) const { return true; }\n"
            "template <typename T>\nvoid C<T>::g() {}\nint A::count = f(1);\nvoid free_one() {}\n}\n")
        self.assertEqual([(one.owner, one.name, one.scope, one.line) for one in outline.definitions],
                         [("A", "f", "n", 2), ("A", "A", "n", 5), ("A", "~A", "n", 6), ("A::B", "operator==", "n", 7),
                          ("C", "g", "n", 8)])


if __name__ == "__main__":
    unittest.main()
