#!/usr/bin/env python3
"""Changes what a pickled dictionary in a file says: edit_object.py FILE KEY NEW, NEW true or false, or a number below 256 in the place of one.

The CRC-32 of the record stays as it was.
"""
import pickle
import sys

FLAGS = {"true": pickle.NEWTRUE, "false": pickle.NEWFALSE}


def main():
    path, key, new = sys.argv[1:]
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        text = key.encode()
        at = data.index(pickle.BINUNICODE + len(text).to_bytes(4, "little") + text) + 5 + len(text)
        skipped = {pickle.BINPUT[0]: 2, pickle.LONG_BINPUT[0]: 5}  # memo
        at += skipped.get(data[at], 0)
        if new in FLAGS:
            assert data[at:at + 1] in FLAGS.values(), data[at:at + 1]
            data[at:at + 1] = FLAGS[new]
        else:
            assert data[at:at + 1] == pickle.BININT1, data[at:at + 1]
            data[at + 1] = int(new)
        file.seek(0)
        file.write(data)


if __name__ == "__main__":
    main()
