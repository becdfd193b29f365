"""A search for keys in captured bytes: raw, in hexadecimal, and in base64 at each of its alignments."""

import base64

PIECE_BYTES = 16  # a part of a key of this size counts as a leak
HEAD_BYTES = 8
MIN_VALUES = 4  # pieces with fewer different bytes are constants, such as the zero key of TLS without a key


def pieces(key):
    """The parts of a key that are searched for, from any of which a leak is evident."""
    parts = [key[at:at + PIECE_BYTES] for at in range(0, len(key), PIECE_BYTES)]
    return [part for part in parts if len(part) >= HEAD_BYTES and len(set(part)) >= MIN_VALUES]


def forms(piece):
    """{name: bytes} of the forms in which a piece may occur."""
    found = {"raw": piece, "hex": piece.hex().encode(), "upper-case hex": piece.hex().upper().encode()}
    for skipped in range(3):
        whole = piece[skipped:]
        whole = whole[:len(whole) // 3 * 3]
        found[f"base64 at {skipped}"] = base64.b64encode(whole)
        found[f"base64url at {skipped}"] = base64.urlsafe_b64encode(whole)
    return {name: text for name, text in found.items() if len(text) >= HEAD_BYTES}


class Search:
    """Finds any of many keys in one pass over the bytes."""

    def __init__(self, keys):
        """`keys`: {bytes: label}."""
        self.by_head = {}
        self.pieces = 0
        for key, label in keys.items():
            for piece in pieces(key):
                self.pieces += 1
                for form, text in forms(piece).items():
                    self.by_head.setdefault(text[:HEAD_BYTES], []).append((text, f"{label}, {form}"))

    def find(self, data):
        """The labels and forms of the keys of which `data` has a piece."""
        found = set()
        heads = self.by_head
        for at in range(len(data) - HEAD_BYTES + 1):
            for text, label in heads.get(data[at:at + HEAD_BYTES], ()):
                if data.startswith(text, at):
                    found.add(label)
        return found
