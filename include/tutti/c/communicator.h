/* The part of tutti.h for versions, statuses and communicators; programs include tutti/tutti.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_C_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_C_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* The version of the loaded library as static text, such as "0.1.0". */
TUTTI_C_EXPORT const char* tutti_version(void);

/* ---- Status ---------------------------------------------------------------------------------- */

/* The kind of a failure, on which a program can branch. Later versions may add values, but no value
 * changes its meaning. */
typedef int32_t tutti_status_t;
enum {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1,   /* unusable argument, environment variable or file of the caller */
  TUTTI_UNSUPPORTED = 2,        /* feature that this device or host lacks */
  TUTTI_RESOURCE_EXHAUSTED = 3, /* lack of memory or file descriptors, or a limit that is reached */
  TUTTI_TIMEOUT = 4,            /* operation that did not end within its time limit */
  TUTTI_PEER_FAILED = 5,        /* loss of another rank: it died, hung or became unreachable */
  TUTTI_ABORTED = 6,            /* use of a communicator that was aborted */
  TUTTI_SYSTEM = 7,             /* failure of a system call */
  TUTTI_INTERNAL = 8            /* broken invariant inside Tutti, which is a bug of Tutti */
};

/* The name of a status as static text, such as "peer_failed"; "unknown" for a value that is not a
 * status. */
TUTTI_C_EXPORT const char* tutti_status_string(tutti_status_t status);

/* The message of the last call of a Tutti function that failed in this thread; "" if none failed.
 * The text belongs to Tutti and stays valid until the next failure in this thread; a successful
 * call does not change it. */
TUTTI_C_EXPORT const char* tutti_last_error(void);

/* Stores in `ranks` the ranks of the job that are at fault for the failure that tutti_last_error
 * describes, such as a lost rank or both ends of a path that loses packets. After a wait that has
 * timed out, these are the ranks whose data is missing at this rank. Stores at most `capacity`
 * ranks, but returns how many there are; 0 if no rank is known to be at fault. `ranks` may be
 * NULL. */
TUTTI_C_EXPORT size_t tutti_last_error_ranks(uint32_t* ranks, size_t capacity);

/* Frees a text that the caller got from tutti_comm_flight_record or tutti_comm_describe. NULL is
 * allowed. */
TUTTI_C_EXPORT void tutti_free_text(char* text);

/* ---- Communicators --------------------------------------------------------------------------- */

/* A fixed set of ranks that run collectives together. */
typedef struct tutti_comm tutti_comm_t;

/* The options of a communicator; 0 or NULL in a field selects its default. If a field marked (equal
 * on all ranks) has different values, the creation fails with an error that names the field. Texts
 * are read only while the communicator is created. */
typedef struct tutti_comm_options {
  size_t size; /* sizeof(tutti_comm_options_t) */
  /* Name or IP address of the network interface. If NULL, TUTTI_INTERFACE is used; if that is not
   * set either, the library chooses the interface. */
  const char* interface_name;
  /* (equal on all ranks) Not 0: IPv6 instead of IPv4. */
  uint32_t ipv6;
  /* (equal on all ranks) Number of multicast subgroups that share each block. Default: 1. */
  uint32_t subgroups;
  /* (equal on all ranks) Number of ranks that multicast at the same time in an Allgather. If 0,
   * the library learns it from measurements. */
  uint32_t chains;
  /* (equal on all ranks) Payload of a multicast chunk, in bytes. If 0, a chunk is as long as the
   * smallest MTU allows, or with "uc" as long as a message may be. */
  uint32_t chunk_bytes;
  /* (equal on all ranks) Credit window in bytes: the most that all senders together may have
   * outstanding, which means sent but not yet known to be consumed by every receiver. If 0, the
   * window is 0.4 of the smallest receive buffer that a kernel granted. */
  uint64_t window_bytes;
  /* (equal on all ranks) Not 0: datagrams carry a CRC-32C instead of a keyed tag. */
  uint32_t no_authentication;
  /* (equal on all ranks) Not 0: a ready barrier begins every collective. */
  uint32_t always_barrier;
  /* A watched peer that gives no answer for this long, counted from the first ping without an
   * answer, is declared lost. Default: 3 s. */
  int64_t peer_timeout_ns;
  /* Time within which all ranks must create the communicator. Default: 30 s. */
  int64_t create_timeout_ns;
  /* Number of receive workers, at most one per subgroup. If 0, TUTTI_RECEIVE_WORKERS is used; if
   * that is not set either, there are no receive workers, and the thread that runs the engine
   * receives. */
  uint32_t receive_workers;
  /* Not 0: the communicator is created without aggregators if one of them cannot be used, so that
   * the ranks reduce by themselves. 0: creation fails in this case. The value of rank 0 applies to
   * all ranks. TUTTI_AGGREGATOR_FALLBACK=1 has the same effect as a value that is not 0. */
  uint32_t aggregator_fallback;
  /* Addresses "host:port,..." of the aggregators that reduce for this communicator. If NULL,
   * TUTTI_AGGREGATORS is used; if that is not set either, no aggregators are used. The list of rank
   * 0 applies to all ranks, and creation fails if only some ranks give a list. */
  const char* aggregators;
  /* (equal on all ranks) Device that moves the bytes: "ip" (UDP), "host" (shared memory of one
   * host) or "auto". "auto" selects "host" if all ranks share a host and no option or variable
   * asks for the network, and "ip" otherwise. If NULL, TUTTI_DEVICE is used; the default is
   * "auto". */
  const char* device_name;
  /* (equal on all ranks) How the device "ip" multicasts a chunk: as one datagram ("ud") or as one
   * message of several datagrams ("uc"); with "none" it multicasts nothing. If NULL,
   * TUTTI_MULTICAST is used; the default is "ud". */
  const char* multicast;
  /* Payload of one datagram of a "uc" message, in bytes. Default: as much as the MTU allows. */
  uint64_t segment_bytes;
  /* (equal on all ranks) Size in bytes up to which a Broadcast, also of up to half of the window,
   * is done at its root as soon as it is sent, among up to 64 ranks. The root retains a copy for
   * retransmission until every rank has acknowledged the data, and closing the communicator waits
   * for these ACKs. Default: 256 KiB; 1 turns this off. Only the device "ip" uses this field, which
   * C++ calls retain_bytes. */
  uint64_t keep_bytes;
  /* (equal on all ranks) Hierarchy of a job with several ranks on each of several hosts; used with
   * the device "auto" only. With "leaders" one rank of each host communicates with other hosts;
   * with "leaders=N", N ranks of each host do. With "groups" every rank exchanges long Allgather
   * blocks with the ranks of equal local rank. "flat" turns the hierarchy off. If NULL,
   * TUTTI_HIERARCHY is used; the default is "leaders". */
  const char* hierarchy;
  /* (equal on all ranks) Not 0: creation fails if the network does not pass multicast between all
   * ranks. 0: creation succeeds on such a network, and the collectives use connections only.
   * TUTTI_REQUIRE_MULTICAST=1 has the same effect as a value that is not 0. */
  uint32_t require_multicast;
  /* (equal on all ranks) Hop limit (TTL in IPv4) of multicast datagrams, 1 to 255: they cross at
   * most `multicast_hops` - 1 routers. Above 1, IPv6 groups have site-local instead of link-local
   * scope. If 0, TUTTI_MULTICAST_HOPS is used; the default is 1, which keeps multicast inside the
   * subnet. */
  uint32_t multicast_hops;
  /* The job key: 32 random bytes that only the ranks of the job have. Creation fails unless all
   * ranks have the same key, or none has one. If NULL, the key comes from the file that
   * TUTTI_JOB_KEY_FILE names; if that is not set either, from the unique id or the launcher. A
   * duplicate ignores this field, because its key derives from the secret of the original
   * communicator. */
  const void* job_key;
  /* Traffic class of the datagrams of the device "ip": the differentiated services code point, 0 to
   * 63 (RFC 2474), by which switches choose a queue. A number from 0 to 15 may follow after a
   * slash, as in "46/5": the priority in the queues of this host (SO_PRIORITY); values above 6 need
   * CAP_NET_ADMIN. Three values separated by commas, as in "8,0,46", are the classes of calls of
   * low, normal and high priority. If NULL, TUTTI_TRAFFIC_CLASS is used; if that is not set either,
   * the kernel's default. */
  const char* traffic_class;
  /* Largest number of reliable connections that the device "ip" holds at a time, 2 or more; an idle
   * connection is closed if another one is needed. There is no limit after a failure. Use this
   * option in jobs of many ranks in which each rank exchanges data with few peers at a time. If 0,
   * TUTTI_MAX_CONNECTIONS is used; if that is not set either, there is no limit. */
  uint32_t max_connections;
} tutti_comm_options_t;

#define TUTTI_COMM_OPTIONS_INIT                                                                  \
  {                                                                                              \
    sizeof(tutti_comm_options_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, \
        NULL, 0, 0, NULL, NULL, 0                                                                \
  }

/* Creates a communicator of all ranks of the job that the environment variables describe (torchrun,
 * Open MPI, MPICH, Slurm, `tutti run` or TUTTI_BOOTSTRAP); without such variables it has one rank.
 * Every rank must call this function. On success it returns when every rank knows whether the
 * network passes multicast between all ranks. The caller frees *comm by tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create(const tutti_comm_options_t* options,
                                                tutti_comm_t** comm);

/* Identifies a job that is being started, as 127 printable characters and a terminating NUL. The
 * application copies the id to the other ranks. Any process that has the id can join the job. */
typedef struct tutti_unique_id {
  char text[128];
} tutti_unique_id_t;

/* Makes an id in the process that will be rank 0 and starts the store in that process. The store
 * uses a TCP port and a thread until rank 0 has joined or the id is discarded. `host` is the
 * address at which the other ranks reach this process; NULL selects the address of the first
 * interface that is up and is not the loopback. */
TUTTI_C_EXPORT tutti_status_t tutti_unique_id_create(const char* host, tutti_unique_id_t* id);
/* Stops the store of this id if this process made the id and has not joined; otherwise does
 * nothing. */
TUTTI_C_EXPORT tutti_status_t tutti_unique_id_discard(const tutti_unique_id_t* id);

/* Creates a communicator of `size` ranks that have the same id. Rank 0 must be the process that
 * made the id. The caller frees *comm by tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create_with_id(const tutti_unique_id_t* id, uint32_t rank,
                                                        uint32_t size,
                                                        const tutti_comm_options_t* options,
                                                        tutti_comm_t** comm);

/* An allgather that the program supplies, such as MPI_Allgather. It copies the `bytes` bytes at
 * `mine` of every rank, in rank order, to `all`, which has room for `bytes` bytes of each rank. The
 * function blocks and returns TUTTI_OK or an error; it must return an error after `timeout_ns`. */
typedef tutti_status_t (*tutti_allgather_fn)(const void* mine, void* all, size_t bytes,
                                             int64_t timeout_ns, void* context);

/* Creates a communicator of `size` ranks, which find each other by the caller's `allgather`. The
 * library calls `allgather`, with `context`, only during this function. The caller frees *comm by
 * tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create_with_callback(tutti_allgather_fn allgather,
                                                              void* context, uint32_t rank,
                                                              uint32_t size,
                                                              const tutti_comm_options_t* options,
                                                              tutti_comm_t** comm);

/* Creates a second communicator of the same ranks. It shares the progress thread of `comm`, but its
 * collectives need no order relative to those of `comm`. Every rank must call this function, at the
 * same place in the order of the collectives of `comm`. The options are not inherited: pass those
 * of `comm` again if they are to apply. If this function, tutti_comm_split or tutti_comm_subset
 * times out, it aborts `comm`, because its ranks may be at different calls. The caller frees
 * *duplicate by tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_duplicate(tutti_comm_t* comm,
                                                   const tutti_comm_options_t* options,
                                                   tutti_comm_t** duplicate);

/* As `color` of a split: this rank joins no communicator. */
#define TUTTI_NO_COLOR UINT32_MAX

/* Splits a communicator: the ranks that pass the same color form a new communicator. They are
 * numbered by key and, among equal keys, by their rank in `comm`. *part is NULL at a rank that
 * passes TUTTI_NO_COLOR. The new communicator shares the progress thread of `comm`, but its
 * collectives need no order relative to those of `comm`. Every rank must call this function, at the
 * same place in the order of the collectives of `comm`. The options are not inherited. After an
 * error of the new communicator, tutti_last_error_ranks has the ranks' numbers in the job. The
 * caller frees *part by tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_split(tutti_comm_t* comm, uint32_t color, int64_t key,
                                               const tutti_comm_options_t* options,
                                               tutti_comm_t** part);
/* As tutti_comm_split, for a communicator of the `count` ranks in `ranks`, in the order of the
 * array. *part is NULL at a rank that is not in `ranks`. Ranks may pass different arrays if these
 * have no rank in common. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_subset(tutti_comm_t* comm, const uint32_t* ranks,
                                                size_t count, const tutti_comm_options_t* options,
                                                tutti_comm_t** part);

/* Frees the handle of a communicator. This rank leaves the communicator when all requests and
 * prepared collectives are freed, too. Wait for the requests first, because their buffers belong to
 * Tutti until the requests are done. NULL is allowed. */
TUTTI_C_EXPORT void tutti_comm_destroy(tutti_comm_t* comm);

/* Stores the number of this rank, from 0 to the number of ranks minus 1, in *rank. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, uint32_t* rank);
/* Stores the number of ranks in *size. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_size(const tutti_comm_t* comm, uint32_t* size);

/* Ends every collective of the communicator with an error: at this rank with TUTTI_ABORTED and
 * `reason`, at the peers with an error that names this rank. Later collectives fail. `reason` may
 * be NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_abort(tutti_comm_t* comm, const char* reason);

/* Returns the state of the communicator without blocking, also while no call is in flight:
 * TUTTI_OK, or the first failure or abort that this rank or a peer has noticed. Only a rank that
 * has a call in flight notices the death of a peer by itself. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_status(const tutti_comm_t* comm);

/* Ends the communicator at this rank within a time: waits up to `timeout_ns` for the calls in
 * flight and for peers that still need data from this rank. Returns TUTTI_OK or the failure of the
 * communicator. Returns TUTTI_TIMEOUT if calls in flight were aborted, or if peers may lack data
 * although all calls have ended; in the second case tutti_last_error_ranks has these peers.
 * Afterwards the caller still frees the handle by tutti_comm_destroy, which returns quickly, and
 * every other call on the communicator fails with TUTTI_INVALID_ARGUMENT; tutti_comm_counters and
 * the other functions that only observe still work. Only this rank leaves; no other thread may
 * start a collective meanwhile. A completion callback must not call this function. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_finalize(tutti_comm_t* comm, int64_t timeout_ns);

#ifdef __cplusplus
} /* extern "C" */
#endif
