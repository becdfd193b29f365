#!/usr/bin/env python3
"""Stands between a rank and its launcher's PMI-1 connection, and records the lines of both in FOLDER/PID.

  pmi_relay.py FOLDER COMMAND...
"""

import os
import select
import socket
import subprocess
import sys


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    launcher = socket.socket(fileno=int(os.environ["PMI_FD"]))
    near, far = socket.socketpair()
    rank = subprocess.Popen(command, env={**os.environ, "PMI_FD": str(far.fileno())}, pass_fds=[far.fileno()])
    far.close()
    to = {launcher: near, near: launcher}
    with open(os.path.join(folder, str(os.getpid())), "wb", buffering=0) as record:
        while to:
            for source in select.select(list(to), [], [])[0]:
                part = source.recv(65536)
                record.write(part)
                if part:
                    to[source].sendall(part)
                else:
                    del to[source]
                    if source is near:
                        to.clear()
                        break
    sys.exit(rank.wait())


main()
