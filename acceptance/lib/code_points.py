"""Counts by code point (RFC 2474) the UDP packets that an interface of this network namespace carries, until standard
input ends, and prints the counts as JSON. Segments that the kernel merges count once.

  code_points.py INTERFACE
"""

import json
import select
import socket
import sys

ETH_P_ALL = 3


def main():
    counts = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)) as link:
        link.bind((sys.argv[1], ETH_P_ALL))
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([link, sys.stdin], [], [])
            if link in ready:
                head = link.recv(64)
                if head[0] >> 4 == 4 and head[9] == socket.IPPROTO_UDP:
                    counts[head[1] >> 2] = counts.get(head[1] >> 2, 0) + 1
            elif sys.stdin in ready:
                break
    print(json.dumps(counts), flush=True)


main()
