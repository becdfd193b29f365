/* Tutti's C interface: the same communicators, collectives and requests as tutti/communicator.hpp,
 * for C and for every language that can call C.
 *
 *   tutti_comm_t* comm = NULL;
 *   if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
 *     fprintf(stderr, "%s\n", tutti_last_error());
 *     return 1;
 *   }
 *   tutti_broadcast(comm, buffer, bytes, 0, NULL);
 *   tutti_comm_destroy(comm);
 *
 * Errors: a function that can fail returns a tutti_status_t; tutti_last_error() returns the message
 * of the failure. Bad arguments, and NULL where no comment allows it, give TUTTI_INVALID_ARGUMENT
 * and never undefined behaviour. A function that fails leaves its output arguments unchanged,
 * unless its comment says otherwise; a failed collective may have changed its receive buffer.
 *
 * Structures: the first field, except in tutti_unique_id_t, is `size`, which the caller sets to the
 * size of the structure, most easily by the _INIT macro. Later versions append fields. A field of
 * an option structure that is 0 or NULL has its default; a pointer to options that is NULL selects
 * all defaults.
 *
 * Threads: several threads may use a communicator at the same time, but all ranks must call its
 * collectives in the same order. Only one thread at a time may use a request, except that any
 * thread may call tutti_request_progress. A thread that is cancelled (pthread_cancel) in a call
 * completes the call first.
 *
 * Fork: in a child of fork() the parent's communicators and requests give TUTTI_INVALID_ARGUMENT,
 * and their destruction leaks them. Neither affects the parent. The child may create communicators
 * of its own. A completion callback must not return in a child. */
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
  TUTTI_INVALID_ARGUMENT = 1,   /* argument or environment variable that cannot be used */
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

/* Returns the number of ranks of the job that the same failure names as at fault, such as a lost
 * rank or both ends of a path that loses packets; 0 if no rank is known to be at fault. Stores the
 * first `capacity` of them in `ranks`, which may be NULL. */
TUTTI_C_EXPORT size_t tutti_last_error_ranks(uint32_t* ranks, size_t capacity);

/* Frees a text that the caller got from tutti_comm_flight_record or tutti_comm_describe. NULL is
 * allowed. */
TUTTI_C_EXPORT void tutti_free_text(char* text);

/* ---- Communicators --------------------------------------------------------------------------- */

/* A fixed set of ranks that run collectives together. */
typedef struct tutti_comm tutti_comm_t;

/* The options of a communicator; 0 or NULL in a field selects its default. The mark (all) means
 * that the field must be equal on all ranks. Texts are read only while the communicator is
 * created. */
typedef struct tutti_comm_options {
  size_t size; /* sizeof(tutti_comm_options_t) */
  /* Name or IP address of the network interface. Default: TUTTI_INTERFACE, else the library
   * chooses. */
  const char* interface_name;
  /* (all) Not 0: IPv6 instead of IPv4. */
  uint32_t ipv6;
  /* (all) Number of multicast subgroups that share each block. Default: 1. */
  uint32_t subgroups;
  /* (all) Number of ranks that multicast at the same time in an Allgather. Default: learned from
   * measurements. */
  uint32_t chains;
  /* (all) Payload of a multicast chunk, in bytes. Default: as much as the smallest MTU allows, or
   * with "uc" as long as a message may be. */
  uint32_t chunk_bytes;
  /* (all) Credit window in bytes: the most that all senders together may have sent without knowing
   * that every receiver has consumed it. Default: what the smallest receive buffer holds. */
  uint64_t window_bytes;
  /* (all) Not 0: datagrams carry a CRC-32C instead of a keyed tag. */
  uint32_t no_authentication;
  /* (all) Not 0: a ready barrier begins every collective. */
  uint32_t always_barrier;
  /* A watched peer that gives no answer for this long, counted from the first ping without an
   * answer, is declared lost. Default: 3 s. */
  int64_t peer_timeout_ns;
  /* Time within which all ranks must create the communicator. Default: 30 s. */
  int64_t create_timeout_ns;
  /* Number of receive workers, at most one per subgroup. Default: TUTTI_RECEIVE_WORKERS, else
   * none. */
  uint32_t receive_workers;
  /* Not 0: the communicator is created without aggregators if one of them cannot be used, so that
   * the ranks reduce by themselves. Default: its creation fails then. Rank 0's value applies. */
  uint32_t aggregator_fallback;
  /* Addresses "host:port,..." of the aggregators that reduce for this communicator. Default:
   * TUTTI_AGGREGATORS, else no aggregators. */
  const char* aggregators;
  /* (all) Device: "ip" (UDP), "host" (shared memory of one host) or "auto". Default: TUTTI_DEVICE,
   * else "auto". */
  const char* device_name;
  /* (all) "ud": a chunk is one datagram; "uc": a chunk is a message of several datagrams; "none":
   * nothing is multicast. Default: TUTTI_MULTICAST, else "ud". */
  const char* multicast;
  /* Payload of one datagram of a "uc" message, in bytes. Default: as much as the MTU allows. */
  uint64_t segment_bytes;
  /* (all) Size in bytes up to which a Broadcast is done at its root as soon as it is sent; the root
   * retains a copy until every rank has acknowledged the data. Default: 256 KiB; 1 turns this off.
   * C++ calls this field retain_bytes. */
  uint64_t keep_bytes;
  /* (all) Hierarchy of a job with several ranks on each of several hosts: "leaders", "leaders=N" (N
   * leaders per host), "groups" or "flat". Default: TUTTI_HIERARCHY, else "leaders". */
  const char* hierarchy;
  /* (all) Not 0: creation fails if the network does not pass multicast between all ranks. Default:
   * TUTTI_REQUIRE_MULTICAST, else the collectives then go from rank to rank. */
  uint32_t require_multicast;
  /* (all) Number of routers, plus one, that multicast may cross, 1 to 255; above 1, IPv6 groups have
   * site-local instead of link-local scope. Default: TUTTI_MULTICAST_HOPS, else 1: multicast does
   * not leave the subnet. */
  uint32_t multicast_hops;
  /* The job key: 32 random bytes that only the ranks of the job have. All ranks must give the same
   * ones, or none. Default: the file that TUTTI_JOB_KEY_FILE names, else the key of a unique id or
   * of the launcher. */
  const void* job_key;
  /* Traffic class of the datagrams of the device "ip": the differentiated services code point, 0 to
   * 63 (RFC 2474), by which switches choose a queue. A number from 0 to 15 may follow after a slash,
   * as in "46/5": the priority in the queues of the own host (SO_PRIORITY), which needs
   * CAP_NET_ADMIN above 6. Default: TUTTI_TRAFFIC_CLASS, else the kernel's. */
  const char* traffic_class;
} tutti_comm_options_t;

#define TUTTI_COMM_OPTIONS_INIT                                                                  \
  {                                                                                              \
    sizeof(tutti_comm_options_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, \
        NULL, 0, 0, NULL, NULL                                                                   \
  }

/* Creates a communicator of all ranks of the job that the environment variables describe (torchrun,
 * Open MPI, MPICH, Slurm, `tutti run` or TUTTI_BOOTSTRAP); without such variables it has one rank.
 * Every rank must call this function. It returns when every rank knows whether the network passes
 * multicast between all ranks, or with an error. The caller frees *comm by tutti_comm_destroy. */
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
 * same place in the order of the collectives of `comm`. The caller frees *duplicate by
 * tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_duplicate(tutti_comm_t* comm,
                                                   const tutti_comm_options_t* options,
                                                   tutti_comm_t** duplicate);

/* As `color` of a split: this rank joins no communicator. */
#define TUTTI_NO_COLOR UINT32_MAX

/* Splits a communicator: the ranks that pass the same color form a new one, numbered in the order of
 * their keys, then of their ranks in `comm`. *part is NULL at a rank that passes TUTTI_NO_COLOR. The
 * new communicator shares the progress thread of `comm`, and its collectives need no order relative
 * to those of `comm`. Every rank must call this function, at the same place in the order of the
 * collectives of `comm`. tutti_last_error_ranks has the numbers that lost ranks have in the job. The
 * caller frees *part by tutti_comm_destroy. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_split(tutti_comm_t* comm, uint32_t color, int64_t key,
                                               const tutti_comm_options_t* options,
                                               tutti_comm_t** part);
/* As tutti_comm_split, for a communicator of the `count` ranks in `ranks`, in their order. *part is
 * NULL at a rank that is not named. Ranks may name different lists that have no rank in common. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_subset(tutti_comm_t* comm, const uint32_t* ranks,
                                                size_t count, const tutti_comm_options_t* options,
                                                tutti_comm_t** part);

/* Frees the handle of a communicator. This rank leaves the communicator when all requests are
 * freed, too. Wait for the requests first, because their buffers belong to Tutti until they are
 * done. NULL is allowed. */
TUTTI_C_EXPORT void tutti_comm_destroy(tutti_comm_t* comm);

/* Stores the number of this rank, from 0 to the number of ranks minus 1, in *rank. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, uint32_t* rank);
/* Stores the number of ranks in *size. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_size(const tutti_comm_t* comm, uint32_t* size);

/* Ends every collective of the communicator with an error: at this rank with TUTTI_ABORTED and
 * `reason`, at the peers with an error that names this rank. Later collectives fail. `reason` may
 * be NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_abort(tutti_comm_t* comm, const char* reason);

/* Tells without blocking whether the communicator has failed or was aborted, also while no call is
 * in flight: TUTTI_OK, or the first failure. It knows what this rank and its peers have noticed; a
 * peer that dies is noticed only by calls in flight, and by ranks that wait in them. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_status(const tutti_comm_t* comm);

/* Ends the communicator at this rank with a status and a bound: waits up to `timeout_ns` for the
 * calls in flight and for peers that still need data from this rank. Returns the failure of the
 * communicator, or TUTTI_TIMEOUT: calls in flight were then aborted, and tutti_last_error_ranks has
 * the peers that may lack data. Afterwards every call except tutti_comm_destroy and the calls that
 * observe fails with TUTTI_INVALID_ARGUMENT. No other thread may start a collective meanwhile. The
 * caller still frees the handle by tutti_comm_destroy, which then does nothing slow. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_finalize(tutti_comm_t* comm, int64_t timeout_ns);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The algorithms that have a number; tutti_call_options_t::algorithm_name selects any other. */
enum {
  TUTTI_ALGORITHM_AUTOMATIC = 0, /* chosen from the algorithm table */
  TUTTI_ALGORITHM_MULTICAST = 1, /* reliable multicast */
  TUTTI_ALGORITHM_RING = 2       /* ring of ranks; for Broadcast a chain from the root */
};

/* Options of one collective; 0 or NULL in a field selects its default. All ranks must pass the same
 * options. */
typedef struct tutti_call_options {
  size_t size;        /* sizeof(tutti_call_options_t) */
  uint32_t algorithm; /* TUTTI_ALGORITHM_... */
  uint32_t ports;     /* number of ports k of a k-port algorithm */
  uint32_t radix;     /* radix k of a k-nomial tree */
  uint32_t segments;  /* number of segments into which a pipelined message is cut */
  /* Name that `tutti explain` lists; takes precedence over `algorithm`. */
  const char* algorithm_name;
} tutti_call_options_t;

#define TUTTI_CALL_OPTIONS_INIT \
  { sizeof(tutti_call_options_t), 0, 0, 0, 0, NULL }

/* The type of the elements that a reduction combines. */
enum {
  TUTTI_INT8 = 0,
  TUTTI_INT16 = 1,
  TUTTI_INT32 = 2,
  TUTTI_INT64 = 3,
  TUTTI_UINT8 = 4,
  TUTTI_UINT16 = 5,
  TUTTI_UINT32 = 6,
  TUTTI_UINT64 = 7,
  TUTTI_FLOAT16 = 8,
  TUTTI_BFLOAT16 = 9,
  TUTTI_FLOAT32 = 10,
  TUTTI_FLOAT64 = 11
};

/* The operation of a reduction. TUTTI_AND, TUTTI_OR and TUTTI_XOR are bitwise, for integers
 * only. */
enum {
  TUTTI_SUM = 0,
  TUTTI_MIN = 1,
  TUTTI_MAX = 2,
  TUTTI_PROD = 3,
  TUTTI_AND = 4,
  TUTTI_OR = 5,
  TUTTI_XOR = 6,
  TUTTI_AVERAGE = 7,          /* sum of all contributions, divided by the number of ranks */
  TUTTI_PREMULTIPLIED_SUM = 8 /* sum of all contributions, each multiplied by its rank's factor */
};

/* The element type and the operation of one reduction. */
typedef struct tutti_reduction {
  size_t size;        /* sizeof(tutti_reduction_t) */
  uint32_t type;      /* element type, such as TUTTI_FLOAT32 */
  uint32_t operation; /* operation, such as TUTTI_SUM */
  const void* factor; /* this rank's factor for TUTTI_PREMULTIPLIED_SUM, one element of `type`; read
                       * only during the call */
} tutti_reduction_t;

#define TUTTI_REDUCTION_INIT(type, operation) \
  { sizeof(tutti_reduction_t), (type), (operation), NULL }

/* Blocking collectives: each function returns when the collective is done at this rank, with the
 * status of the collective. All ranks must pass the same sizes, counts, types, root and options. A
 * buffer of 0 bytes may be NULL. */

/* Barrier: returns when every rank has called this function. */
TUTTI_C_EXPORT tutti_status_t tutti_barrier(tutti_comm_t* comm,
                                            const tutti_call_options_t* options);
/* Broadcast: copies root's `buffer` of `bytes` bytes into the `buffer` of every other rank. */
TUTTI_C_EXPORT tutti_status_t tutti_broadcast(tutti_comm_t* comm, void* buffer, size_t bytes,
                                              uint32_t root, const tutti_call_options_t* options);
/* Allgather: copies every rank's `own` of `bytes` bytes, in rank order, into `all` on every rank.
 * `all` has `bytes` bytes for each rank. In place, `own` is this rank's block of `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_allgather(tutti_comm_t* comm, const void* own, void* all,
                                              size_t bytes, const tutti_call_options_t* options);
/* Allgather with blocks of different sizes. Rank r's block has sizes[r] bytes and begins at byte
 * offsets[r] of `all`, which has `all_bytes` bytes. Both arrays have one entry for each rank and
 * are read only during this call. */
TUTTI_C_EXPORT tutti_status_t tutti_allgatherv(tutti_comm_t* comm, const void* own, void* all,
                                               size_t all_bytes, const uint64_t* sizes,
                                               const uint64_t* offsets,
                                               const tutti_call_options_t* options);
/* Gather: copies every rank's `own` of `bytes` bytes, in rank order, into root's `all`, which has
 * `bytes` bytes for each rank. Other ranks may pass NULL as `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_gather(tutti_comm_t* comm, const void* own, void* all,
                                           size_t bytes, uint32_t root,
                                           const tutti_call_options_t* options);
/* Scatter: copies block r of root's `all` into `own` of rank r. `all` has one block of `bytes`
 * bytes for each rank. Other ranks may pass NULL as `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_scatter(tutti_comm_t* comm, const void* all, void* own,
                                            size_t bytes, uint32_t root,
                                            const tutti_call_options_t* options);
/* Alltoall: sends block r of `send` to rank r, and receives rank r's block for this rank as block r
 * of `receive`. Both buffers have one block of `bytes` bytes for each rank and must not overlap. */
TUTTI_C_EXPORT tutti_status_t tutti_alltoall(tutti_comm_t* comm, const void* send, void* receive,
                                             size_t bytes, const tutti_call_options_t* options);
/* Reduce: combines the `count` elements of every rank's `own` into root's `result` of `count`
 * elements. Other ranks may pass NULL as `result`. */
TUTTI_C_EXPORT tutti_status_t tutti_reduce(tutti_comm_t* comm, const void* own, void* result,
                                           size_t count, uint32_t root,
                                           const tutti_reduction_t* reduction,
                                           const tutti_call_options_t* options);
/* Reduce-Scatter: combines the elements of every rank's `all`, which has one block of `count`
 * elements for each rank; `own` of rank r receives block r of the result. In place, `own` is this
 * rank's block of `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_reduce_scatter(tutti_comm_t* comm, const void* all, void* own,
                                                   size_t count, const tutti_reduction_t* reduction,
                                                   const tutti_call_options_t* options);
/* Allreduce: combines the `count` elements of every rank's `own` into `result` on every rank. In
 * place, `own` and `result` are the same memory. */
TUTTI_C_EXPORT tutti_status_t tutti_allreduce(tutti_comm_t* comm, const void* own, void* result,
                                              size_t count, const tutti_reduction_t* reduction,
                                              const tutti_call_options_t* options);

/* The caller's handle to a collective under way. */
typedef struct tutti_request tutti_request_t;

/* Nonblocking collectives: each function starts the collective of the same name above and returns
 * its request at once. The buffers belong to Tutti until the request is done. The caller frees
 * *request by tutti_request_free. */
TUTTI_C_EXPORT tutti_status_t tutti_ibarrier(tutti_comm_t* comm,
                                             const tutti_call_options_t* options,
                                             tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_ibroadcast(tutti_comm_t* comm, void* buffer, size_t bytes,
                                               uint32_t root, const tutti_call_options_t* options,
                                               tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_iallgather(tutti_comm_t* comm, const void* own, void* all,
                                               size_t bytes, const tutti_call_options_t* options,
                                               tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_iallgatherv(tutti_comm_t* comm, const void* own, void* all,
                                                size_t all_bytes, const uint64_t* sizes,
                                                const uint64_t* offsets,
                                                const tutti_call_options_t* options,
                                                tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_igather(tutti_comm_t* comm, const void* own, void* all,
                                            size_t bytes, uint32_t root,
                                            const tutti_call_options_t* options,
                                            tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_iscatter(tutti_comm_t* comm, const void* all, void* own,
                                             size_t bytes, uint32_t root,
                                             const tutti_call_options_t* options,
                                             tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_ialltoall(tutti_comm_t* comm, const void* send, void* receive,
                                              size_t bytes, const tutti_call_options_t* options,
                                              tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_ireduce(tutti_comm_t* comm, const void* own, void* result,
                                            size_t count, uint32_t root,
                                            const tutti_reduction_t* reduction,
                                            const tutti_call_options_t* options,
                                            tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_ireduce_scatter(tutti_comm_t* comm, const void* all, void* own,
                                                    size_t count,
                                                    const tutti_reduction_t* reduction,
                                                    const tutti_call_options_t* options,
                                                    tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_iallreduce(tutti_comm_t* comm, const void* own, void* result,
                                               size_t count, const tutti_reduction_t* reduction,
                                               const tutti_call_options_t* options,
                                               tutti_request_t** request);

/* Collectives with blocks of different sizes. Rank r's block has sizes[r] bytes and begins at byte
 * offsets[r] of the buffer that holds all blocks, whose length is given in bytes. The arrays have
 * one entry for each rank and are read only during the call. All ranks must agree on the size of
 * each block. Ranks other than the root may pass NULL for `all`, `sizes` and `offsets`. */
TUTTI_C_EXPORT tutti_status_t tutti_gatherv(tutti_comm_t* comm, const void* own, size_t own_bytes,
                                            void* all, size_t all_bytes, const uint64_t* sizes,
                                            const uint64_t* offsets, uint32_t root,
                                            const tutti_call_options_t* options);
TUTTI_C_EXPORT tutti_status_t tutti_igatherv(tutti_comm_t* comm, const void* own, size_t own_bytes,
                                             void* all, size_t all_bytes, const uint64_t* sizes,
                                             const uint64_t* offsets, uint32_t root,
                                             const tutti_call_options_t* options,
                                             tutti_request_t** request);
TUTTI_C_EXPORT tutti_status_t tutti_scatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                                             const uint64_t* sizes, const uint64_t* offsets,
                                             void* own, size_t own_bytes, uint32_t root,
                                             const tutti_call_options_t* options);
TUTTI_C_EXPORT tutti_status_t tutti_iscatterv(tutti_comm_t* comm, const void* all, size_t all_bytes,
                                              const uint64_t* sizes, const uint64_t* offsets,
                                              void* own, size_t own_bytes, uint32_t root,
                                              const tutti_call_options_t* options,
                                              tutti_request_t** request);
/* The block of `send` for rank r has send_sizes[r] bytes, and the one of `receive` from rank r
 * sizes[r]. */
TUTTI_C_EXPORT tutti_status_t tutti_alltoallv(tutti_comm_t* comm, const void* send,
                                              size_t send_bytes, const uint64_t* send_sizes,
                                              const uint64_t* send_offsets, void* receive,
                                              size_t receive_bytes, const uint64_t* sizes,
                                              const uint64_t* offsets,
                                              const tutti_call_options_t* options);
TUTTI_C_EXPORT tutti_status_t tutti_ialltoallv(
    tutti_comm_t* comm, const void* send, size_t send_bytes, const uint64_t* send_sizes,
    const uint64_t* send_offsets, void* receive, size_t receive_bytes, const uint64_t* sizes,
    const uint64_t* offsets, const tutti_call_options_t* options, tutti_request_t** request);
/* `sizes` and `offsets` describe `all`, in bytes, and must be equal on all ranks. In place, `own` is
 * this rank's block of `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_reduce_scatterv(tutti_comm_t* comm, const void* all,
                                                    size_t all_bytes, const uint64_t* sizes,
                                                    const uint64_t* offsets, void* own,
                                                    size_t own_bytes,
                                                    const tutti_reduction_t* reduction,
                                                    const tutti_call_options_t* options);
TUTTI_C_EXPORT tutti_status_t tutti_ireduce_scatterv(
    tutti_comm_t* comm, const void* all, size_t all_bytes, const uint64_t* sizes,
    const uint64_t* offsets, void* own, size_t own_bytes, const tutti_reduction_t* reduction,
    const tutti_call_options_t* options, tutti_request_t** request);

/* The collective of a tutti_call_t. */
enum {
  TUTTI_BARRIER = 0,
  TUTTI_BROADCAST = 1,
  TUTTI_ALLGATHER = 2,
  TUTTI_ALLGATHERV = 3,
  TUTTI_GATHER = 4,
  TUTTI_SCATTER = 5,
  TUTTI_ALLTOALL = 6,
  TUTTI_REDUCE = 7,
  TUTTI_REDUCE_SCATTER = 8,
  TUTTI_ALLREDUCE = 9,
  TUTTI_GATHERV = 10,
  TUTTI_SCATTERV = 11,
  TUTTI_ALLTOALLV = 12,
  TUTTI_REDUCE_SCATTERV = 13
};

/* Any collective and its arguments; 0 or NULL for those that it does not have. Broadcast uses
 * `receive` on all ranks. The structures and arrays that it names are read only during the call. */
typedef struct tutti_call {
  size_t size;         /* sizeof(tutti_call_t) */
  uint32_t collective; /* TUTTI_BARRIER or another */
  uint32_t root;
  const void* send;
  size_t send_bytes; /* length of the whole buffer */
  void* receive;
  size_t receive_bytes;
  const tutti_reduction_t* reduction;
  const uint64_t* sizes; /* blocks of `receive`: Allgatherv, Alltoallv, Gatherv at the root */
  const uint64_t* offsets;
  const uint64_t*
      send_sizes; /* blocks of `send`: Alltoallv, Reduce-Scatterv, Scatterv at the root */
  const uint64_t* send_offsets;
  const tutti_call_options_t* options;
} tutti_call_t;

#define TUTTI_CALL_INIT(collective) \
  { sizeof(tutti_call_t), (collective), 0, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL }

/* Starts the collective that *call describes and stores its request in *request. */
TUTTI_C_EXPORT tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call,
                                          tutti_request_t** request);

/* A collective that is started many times on the same buffers (persistent, in MPI): its arguments
 * are checked and its algorithm is chosen only once. */
typedef struct tutti_prepared tutti_prepared_t;

/* Prepares the collective that *call describes. This call is local. The buffers must outlive
 * *prepared, which the caller frees by tutti_prepared_free.
 *
 *   tutti_call_t call = TUTTI_CALL_INIT(TUTTI_ALLGATHER);
 *   call.send = own, call.send_bytes = bytes;
 *   call.receive = all, call.receive_bytes = size * bytes;
 *   tutti_prepare(comm, &call, &prepared); */
TUTTI_C_EXPORT tutti_status_t tutti_prepare(tutti_comm_t* comm, const tutti_call_t* call,
                                            tutti_prepared_t** prepared);
/* Starts the collective once more; every rank must call this function equally often. Gives
 * TUTTI_INVALID_ARGUMENT while the previous run is under way. */
TUTTI_C_EXPORT tutti_status_t tutti_prepared_start(tutti_prepared_t* prepared,
                                                   tutti_request_t** request);
/* Frees the handle; a run that is under way goes on. NULL is allowed. */
TUTTI_C_EXPORT void tutti_prepared_free(tutti_prepared_t* prepared);

/* ---- Messages from rank to rank -------------------------------------------------------------- */

/* As `from` of a receive: a message of any rank. */
#define TUTTI_ANY_RANK UINT32_MAX

/* The message that a receive has got. */
typedef struct tutti_message {
  size_t size;     /* sizeof(tutti_message_t), set by the caller */
  uint32_t source; /* rank that sent it */
  uint64_t tag;
  uint64_t bytes; /* length of the message, also if it was longer than the buffer */
} tutti_message_t;

#define TUTTI_MESSAGE_INIT \
  { sizeof(tutti_message_t), 0, 0, 0 }

/* Sends `bytes` bytes with a tag to rank `to`, which may be this rank. Messages to one rank that fit
 * the same receive are received in the order in which they are sent. They need no order among the
 * collectives. The call returns, or the request is done, when `message` may be changed: at once for
 * a short message that finds room at the receiver, otherwise when a receive has got it. */
TUTTI_C_EXPORT tutti_status_t tutti_send(tutti_comm_t* comm, const void* message, size_t bytes,
                                         uint32_t to, uint64_t tag);
TUTTI_C_EXPORT tutti_status_t tutti_isend(tutti_comm_t* comm, const void* message, size_t bytes,
                                          uint32_t to, uint64_t tag, tutti_request_t** request);

/* Receives one message of rank `from`, or of any rank (TUTTI_ANY_RANK), whose tag agrees with `tag`
 * in the bits of `tag_mask`: UINT64_MAX for an equal tag, 0 for any tag. The message may be shorter
 * than the `capacity` bytes of `buffer`. A longer one is lost, and the receive gives
 * TUTTI_INVALID_ARGUMENT. A receive from a rank that has died ends after the peer timeout; one from
 * TUTTI_ANY_RANK ends if any rank dies. tutti_recv stores source, tag and length in *message, which
 * may be NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_recv(tutti_comm_t* comm, void* buffer, size_t capacity,
                                         uint32_t from, uint64_t tag, uint64_t tag_mask,
                                         tutti_message_t* message);
TUTTI_C_EXPORT tutti_status_t tutti_irecv(tutti_comm_t* comm, void* buffer, size_t capacity,
                                          uint32_t from, uint64_t tag, uint64_t tag_mask,
                                          tutti_request_t** request);

/* Cancels a receive: it ends with TUTTI_ABORTED unless it has got its message before. Gives
 * TUTTI_INVALID_ARGUMENT for other calls. The buffer belongs to Tutti until the request is done. */
TUTTI_C_EXPORT tutti_status_t tutti_request_cancel(tutti_request_t* request);
/* Stores source, tag and length of the message of a receive that is done in *message. */
TUTTI_C_EXPORT tutti_status_t tutti_request_message(const tutti_request_t* request,
                                                    tutti_message_t* message);

/* ---- Requests -------------------------------------------------------------------------------- */

/* Advances the collective without blocking and stores in *done whether it is done (1) or not (0).
 * Returns TUTTI_OK while it is not done, afterwards the status of the collective. *done is written
 * even if that status is an error. */
TUTTI_C_EXPORT tutti_status_t tutti_request_test(tutti_request_t* request, int* done);
/* Waits for the end of the collective and returns the status of the collective. A call from a
 * completion callback fails with TUTTI_INVALID_ARGUMENT. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait(tutti_request_t* request);
/* As tutti_request_wait, but returns TUTTI_TIMEOUT if the collective is not done after
 * `timeout_ns`. The collective then goes on, and the caller may wait again. tutti_last_error_ranks
 * has the ranks from which data is missing here, as far as this rank knows; in a slot exchange,
 * which barriers and short collectives use, these are all ranks that have not made the call. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_for(tutti_request_t* request, int64_t timeout_ns);

/* As a time limit of a wait: none. */
#define TUTTI_NO_TIMEOUT INT64_MAX

/* Waits until all requests are done, which may be of several communicators; NULLs are skipped.
 * Returns the first failure in the order of the array, or TUTTI_TIMEOUT if some collectives are not
 * done after `timeout_ns`. These go on, and the caller may wait again. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_all(tutti_request_t* const* requests, size_t count,
                                                     int64_t timeout_ns);
/* Waits until one of the requests is done and stores its place in the array in *index; waiting for
 * it then returns its status at once. NULLs are skipped. Returns TUTTI_TIMEOUT if none is done after
 * `timeout_ns`, and TUTTI_INVALID_ARGUMENT if all are NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_any(tutti_request_t* const* requests, size_t count,
                                                     int64_t timeout_ns, size_t* index);

/* The progress of a collective at this rank. The unit is a chunk of the result (multicast), a task
 * (algorithms with a schedule), or a collective on a side communicator (leaders, aggregators). */
typedef struct tutti_progress {
  size_t size;             /* sizeof(tutti_progress_t), set by the caller */
  uint64_t chunks_present; /* number of units that are done */
  uint64_t chunks_total;   /* number of units of the whole collective; 0: not yet known */
  uint32_t done;           /* not 0: the collective is done */
} tutti_progress_t;

#define TUTTI_PROGRESS_INIT \
  { sizeof(tutti_progress_t), 0, 0, 0 }

/* Stores in *progress how far the collective has come, without advancing it. Any thread may call
 * this function, also while another thread uses the request. */
TUTTI_C_EXPORT tutti_status_t tutti_request_progress(const tutti_request_t* request,
                                                     tutti_progress_t* progress);

/* A completion callback. It runs once when a request ends, in the thread that makes progress. It
 * gets the status of the collective, the message ("" for success), which is valid during the call,
 * and the context that was set. The callback must be short and must not block. It may start
 * collectives, read counters and abort; it must not wait for a request or destroy the
 * communicator. */
typedef void (*tutti_completion_fn)(tutti_status_t status, const char* message, void* context);

/* Sets the callback of a request, which can have only one. If the request is done already, the
 * callback runs at once in this thread. */
TUTTI_C_EXPORT tutti_status_t tutti_request_set_callback(tutti_request_t* request,
                                                         tutti_completion_fn callback,
                                                         void* context);

/* Frees the handle of a request. A collective that is not done goes on, and its buffers still
 * belong to Tutti. NULL is allowed. */
TUTTI_C_EXPORT void tutti_request_free(tutti_request_t* request);

/* ---- Observation ----------------------------------------------------------------------------- */

/* Receives the name and the value of one counter. The name is valid during the call. */
typedef void (*tutti_counter_fn)(const char* name, uint64_t value, void* context);

/* Calls `visit`, with `context`, for every protocol and device counter, in the calling thread. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_counters(const tutti_comm_t* comm, tutti_counter_fn visit,
                                                  void* context);
/* Stores the flight record as JSON in *json: the last 256 collectives of this rank with their phase
 * and progress. The caller frees *json by tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_flight_record(const tutti_comm_t* comm, char** json);
/* Stores in *text a few lines that name the communicator's device, interface, multicast group and
 * limits. The caller frees *text by tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_describe(const tutti_comm_t* comm, char** text);

#ifdef __cplusplus
} /* extern "C" */
#endif
