"""Checks that subjects of commits are "area: imperative", from the commit that introduced the rule on."""

import re

SINCE = "23731bf5424cba9a468ae5fa011a8dfe91d13df7"
MAX_SUBJECT = 72
SUBJECT = re.compile(r"[a-z0-9_.][\w./+-]*(?:(?:, | and )[\w./+-]+)*: (?!Results|Review|Who|What|Where)\S.*[^.]")


def check_commits(tree):
    listed = tree.git("log", "--no-merges", "--format=%h %s", f"{SINCE}..HEAD")
    if listed is None:
        tree.skip("subjects of commits", f"no history back to {SINCE[:7]} here")
        return
    for line in listed.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > MAX_SUBJECT:
            tree.report(commit, 1, "words", f"{len(subject)} characters, {MAX_SUBJECT} at most: {subject}", "commit")
        elif not SUBJECT.fullmatch(subject):
            tree.report(commit, 1, "words", f"not 'area: imperative': {subject}", "commit")
