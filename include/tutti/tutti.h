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
 * Errors: a function that can fail returns a tutti_status_t; tutti_last_error() is its message. NULL
 * and bad arguments are errors (TUTTI_INVALID_ARGUMENT), never undefined behaviour. Output arguments
 * are written on success only, unless documented otherwise.
 *
 * Structures begin with `size`, which the caller sets (the _INIT macros do): later versions append
 * fields, and 0 in any field means its default. A structure that is NULL means all defaults.
 *
 * Threads: a communicator may be used by several threads, but the collectives must be called in the
 * same order on all ranks. One request is used by one thread at a time. */
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

/* The version of the library that runs, "0.1.0"; static text. */
TUTTI_C_EXPORT const char* tutti_version(void);

/* ---- Status ---------------------------------------------------------------------------------- */

/* The kind of a failure, for programs to branch on. A value never changes its meaning; later
 * versions may add values. */
typedef int32_t tutti_status_t;
enum {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1,   /* the caller's argument or environment cannot be used */
  TUTTI_UNSUPPORTED = 2,        /* this device or host lacks what was asked for */
  TUTTI_RESOURCE_EXHAUSTED = 3, /* memory, descriptors, buffer limits */
  TUTTI_TIMEOUT = 4,            /* a deadline passed */
  TUTTI_PEER_FAILED = 5,        /* another rank died, froze, or was cut off */
  TUTTI_ABORTED = 6,            /* the communicator was aborted or had failed before */
  TUTTI_SYSTEM = 7,             /* an operating system call failed */
  TUTTI_INTERNAL = 8            /* a broken invariant of Tutti itself */
};

/* The name of a status, such as "peer_failed"; "unknown" for a value that is not a status. Static
 * text. */
TUTTI_C_EXPORT const char* tutti_status_string(tutti_status_t status);

/* The message of the last failed call of a Tutti function in this thread; "" if none failed. The
 * text belongs to Tutti, is valid until the next failure in this thread, and is not changed by a
 * success. */
TUTTI_C_EXPORT const char* tutti_last_error(void);

/* Frees a text that a function of this interface returned to the caller; NULL is allowed. */
TUTTI_C_EXPORT void tutti_free_text(char* text);

/* ---- Communicators --------------------------------------------------------------------------- */

/* A fixed set of ranks that run collectives together. */
typedef struct tutti_comm tutti_comm_t;

/* The options of a communicator; 0 or NULL in a field selects its default. Fields marked (all) must
 * be equal on all ranks. */
typedef struct tutti_comm_options {
  size_t size; /* sizeof(tutti_comm_options_t) */
  const char*
      interface_name; /* name or address of the interface; default: TUTTI_INTERFACE, else chosen */
  uint32_t ipv6;      /* (all) not 0: IPv6 */
  uint32_t subgroups; /* (all) multicast subgroups; default 1 */
  uint32_t chains;    /* (all) chains of the sequencer; default 1 */
  uint32_t chunk_bytes;         /* (all) default: what the smallest MTU allows */
  uint64_t window_bytes;        /* (all) most bytes unconfirmed; default: what buffers hold */
  uint32_t no_authentication;   /* (all) not 0: a CRC-32C instead of a keyed tag */
  uint32_t always_barrier;      /* (all) not 0: ready barrier before every collective */
  int64_t peer_timeout_ns;      /* silence after which a peer is lost; default 3 s */
  int64_t create_timeout_ns;    /* time for all ranks to join; default 30 s */
  uint32_t receive_workers;     /* threads that receive, at most one a subgroup; default:
                                 * TUTTI_RECEIVE_WORKERS, else none */
  uint32_t aggregator_fallback; /* not 0: do without an aggregator that cannot be used */
  const char* aggregators;      /* "host:port,..." that reductions go through; default:
                                 * TUTTI_AGGREGATORS, else none */
  const char* device_name;      /* (all) "ip", "host" (shared memory) or "auto"; default:
                                 * TUTTI_DEVICE, else auto */
  const char* multicast;        /* (all) "ud", a chunk is a datagram, or "uc", a message of several
                                 * that is placed as it arrives; default: TUTTI_MULTICAST, else ud */
  uint64_t segment_bytes; /* payload of a uc datagram; default: what the smallest MTU allows */
  uint64_t keep_bytes;   /* (all) largest Broadcast, in bytes, that completes at its root once it is
                           * sent: the root retains a copy until every rank has acknowledged it;
                           * default 256 KiB, 1: none. C++: retain_bytes */
  const char* hierarchy; /* (all) hosts of several ranks: "leaders", "leaders=N" a host, "groups" or
                          * "flat"; default: TUTTI_HIERARCHY, else leaders */
} tutti_comm_options_t;

#define TUTTI_COMM_OPTIONS_INIT                                                                  \
  {                                                                                              \
    sizeof(tutti_comm_options_t), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, \
        NULL                                                                                     \
  }

/* Creates a communicator of the job that the environment describes (torchrun, Open MPI, MPICH,
 * Slurm, `tutti run` or TUTTI_BOOTSTRAP), or of one rank if it describes none. Collective: returns
 * once every rank has heard every other rank, or with the reason for the failure. The caller
 * destroys *comm. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create(const tutti_comm_options_t* options,
                                                tutti_comm_t** comm);

/* Lets the ranks of a job find each other: 127 printable characters and a NUL. The application
 * copies the id to the other ranks; any process that has the id can join the job. */
typedef struct tutti_unique_id {
  char text[128];
} tutti_unique_id_t;

/* Makes an id in the process that will be rank 0, and starts the store that the id names. `host` is
 * the address under which the other ranks reach this process; NULL: the address of its first
 * running interface. */
TUTTI_C_EXPORT tutti_status_t tutti_unique_id_create(const char* host, tutti_unique_id_t* id);
/* Stops the store of an id that this process made and did not join. */
TUTTI_C_EXPORT tutti_status_t tutti_unique_id_discard(const tutti_unique_id_t* id);

/* Creates a communicator of `size` ranks that share an id; rank 0 is the process that made the id.
 * */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create_with_id(const tutti_unique_id_t* id, uint32_t rank,
                                                        uint32_t size,
                                                        const tutti_comm_options_t* options,
                                                        tutti_comm_t** comm);

/* The caller's own exchange (MPI_Allgather, a store): gathers `bytes` bytes of every rank's `mine`,
 * in rank order, into `all` (size x bytes). It blocks and must itself fail after `timeout_ns`; it
 * returns TUTTI_OK or the error. */
typedef tutti_status_t (*tutti_allgather_fn)(const void* mine, void* all, size_t bytes,
                                             int64_t timeout_ns, void* context);

/* Creates a communicator through the caller's own exchange, which is called only during this call.
 * */
TUTTI_C_EXPORT tutti_status_t tutti_comm_create_with_callback(tutti_allgather_fn allgather,
                                                              void* context, uint32_t rank,
                                                              uint32_t size,
                                                              const tutti_comm_options_t* options,
                                                              tutti_comm_t** comm);

/* Creates a second communicator of the same ranks, with its own order of collectives and the same
 * progress thread. Collective on `comm`, through which the ranks exchange the setup data. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_duplicate(tutti_comm_t* comm,
                                                   const tutti_comm_options_t* options,
                                                   tutti_comm_t** duplicate);

/* Destroys the caller's handle; the communicator closes once its last request is freed. Wait for
 * the requests first: until they are done, their buffers belong to Tutti. NULL is allowed. */
TUTTI_C_EXPORT void tutti_comm_destroy(tutti_comm_t* comm);

TUTTI_C_EXPORT tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, uint32_t* rank);
TUTTI_C_EXPORT tutti_status_t tutti_comm_size(const tutti_comm_t* comm, uint32_t* size);

/* Aborts every collective: at this rank with an error that has `reason` (may be NULL), at the peers
 * with an error that names this rank. Afterwards the communicator can only be destroyed. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_abort(tutti_comm_t* comm, const char* reason);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The algorithm that carries out a collective. */
enum {
  TUTTI_ALGORITHM_AUTOMATIC = 0, /* chosen from the algorithm table */
  TUTTI_ALGORITHM_MULTICAST = 1, /* reliable multicast */
  TUTTI_ALGORITHM_RING = 2       /* P-1 steps between neighbours; Broadcast: a pipelined chain */
};

/* Options of one call; 0 in a field selects its default. All ranks must pass the same options. */
typedef struct tutti_call_options {
  size_t size;                /* sizeof(tutti_call_options_t) */
  uint32_t algorithm;         /* TUTTI_ALGORITHM_... */
  uint32_t ports;             /* ports k of the k-port algorithms */
  uint32_t radix;             /* radix of the k-nomial trees */
  uint32_t segments;          /* number of segments of a pipelined message */
  const char* algorithm_name; /* overrides `algorithm`: a name that `tutti explain` lists */
} tutti_call_options_t;

#define TUTTI_CALL_OPTIONS_INIT \
  { sizeof(tutti_call_options_t), 0, 0, 0, 0, NULL }

/* The type of one element. */
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

/* The operation of a reduction; the bitwise ones are for integers only. */
enum {
  TUTTI_SUM = 0,
  TUTTI_MIN = 1,
  TUTTI_MAX = 2,
  TUTTI_PROD = 3,
  TUTTI_AND = 4,
  TUTTI_OR = 5,
  TUTTI_XOR = 6,
  TUTTI_AVERAGE = 7,          /* the sum, divided once by the number of ranks */
  TUTTI_PREMULTIPLIED_SUM = 8 /* the sum of the contributions, each multiplied by its own factor */
};

/* The element type and the operation of one reduction. */
typedef struct tutti_reduction {
  size_t size;        /* sizeof(tutti_reduction_t) */
  uint32_t type;      /* a value of the element types, such as TUTTI_FLOAT32 */
  uint32_t operation; /* a value of the operations, such as TUTTI_SUM */
  const void* factor; /* TUTTI_PREMULTIPLIED_SUM: this rank's, one element; read during the call */
} tutti_reduction_t;

#define TUTTI_REDUCTION_INIT(type, operation) \
  { sizeof(tutti_reduction_t), (type), (operation), NULL }

/* Blocking collectives: each function returns when the collective is over at this rank. Sizes,
 * counts, root, types and options must be the same on all ranks; a buffer of 0 bytes may be NULL.
 * */

/* Barrier: returns once every rank has called it. */
TUTTI_C_EXPORT tutti_status_t tutti_barrier(tutti_comm_t* comm,
                                            const tutti_call_options_t* options);
/* Sends root's `buffer` to every other rank's `buffer`; all are `bytes` long. */
TUTTI_C_EXPORT tutti_status_t tutti_broadcast(tutti_comm_t* comm, void* buffer, size_t bytes,
                                              uint32_t root, const tutti_call_options_t* options);
/* Gathers `bytes` bytes of every rank's `own`, in rank order, into every rank's `all` (size x
 * bytes). In place: `own` is this rank's block of `all`. */
TUTTI_C_EXPORT tutti_status_t tutti_allgather(tutti_comm_t* comm, const void* own, void* all,
                                              size_t bytes, const tutti_call_options_t* options);
/* Allgather for blocks of different sizes: rank r's block has sizes[r] bytes and is stored at
 * offset offsets[r] of `all`, which has `all_bytes` bytes. */
TUTTI_C_EXPORT tutti_status_t tutti_allgatherv(tutti_comm_t* comm, const void* own, void* all,
                                               size_t all_bytes, const uint64_t* sizes,
                                               const uint64_t* offsets,
                                               const tutti_call_options_t* options);
/* Gathers `bytes` bytes of every rank's `own` into root's `all` (size x bytes); other ranks pass
 * NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_gather(tutti_comm_t* comm, const void* own, void* all,
                                           size_t bytes, uint32_t root,
                                           const tutti_call_options_t* options);
/* Sends block r of root's `all` (size x bytes) to rank r's `own`; other ranks pass NULL as `all`.
 * */
TUTTI_C_EXPORT tutti_status_t tutti_scatter(tutti_comm_t* comm, const void* all, void* own,
                                            size_t bytes, uint32_t root,
                                            const tutti_call_options_t* options);
/* Sends block r of `send` to rank r, which receives it as this rank's block of `receive`; both
 * buffers have size x bytes. */
TUTTI_C_EXPORT tutti_status_t tutti_alltoall(tutti_comm_t* comm, const void* send, void* receive,
                                             size_t bytes, const tutti_call_options_t* options);
/* Combines `count` elements of every rank's `own` into root's `result`; other ranks pass NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_reduce(tutti_comm_t* comm, const void* own, void* result,
                                           size_t count, uint32_t root,
                                           const tutti_reduction_t* reduction,
                                           const tutti_call_options_t* options);
/* Combines every rank's `all` of size x count elements; rank r's `own` receives block r of the
 * result. */
TUTTI_C_EXPORT tutti_status_t tutti_reduce_scatter(tutti_comm_t* comm, const void* all, void* own,
                                                   size_t count, const tutti_reduction_t* reduction,
                                                   const tutti_call_options_t* options);
/* Combines `count` elements of every rank's `own` into every rank's `result`. In place: `own` and
 * `result` are the same memory. */
TUTTI_C_EXPORT tutti_status_t tutti_allreduce(tutti_comm_t* comm, const void* own, void* result,
                                              size_t count, const tutti_reduction_t* reduction,
                                              const tutti_call_options_t* options);

/* A collective under way. */
typedef struct tutti_request tutti_request_t;

/* Nonblocking collectives: each function starts a collective and returns at once. The buffers
 * belong to Tutti until the request is done, and the caller frees *request. */
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

/* ---- Requests -------------------------------------------------------------------------------- */

/* Makes some progress and stores in *done whether the collective is over. Returns the status of the
 * collective once it is over, and TUTTI_OK before; *done is written in either case. */
TUTTI_C_EXPORT tutti_status_t tutti_request_test(tutti_request_t* request, int* done);
/* Waits for the end of the collective and returns its status. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait(tutti_request_t* request);
/* Waits for at most `timeout_ns` and then returns TUTTI_TIMEOUT; the collective goes on, and the
 * request can be waited for again. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_for(tutti_request_t* request, int64_t timeout_ns);

/* The progress of a collective at this rank, in chunks that have arrived (multicast), tasks
 * (schedule), or operations on side communicators (leaders, aggregators). */
typedef struct tutti_progress {
  size_t size; /* sizeof(tutti_progress_t), set by the caller */
  uint64_t chunks_present;
  uint64_t chunks_total;
  uint32_t done; /* not 0: the collective is over */
} tutti_progress_t;

#define TUTTI_PROGRESS_INIT \
  { sizeof(tutti_progress_t), 0, 0, 0 }

TUTTI_C_EXPORT tutti_status_t tutti_request_progress(const tutti_request_t* request,
                                                     tutti_progress_t* progress);

/* Called once when a request ends, from the thread that makes progress, with the status of the
 * request and its message ("" for success; valid during the call). It must be short and must not
 * block: it may start collectives, read counters and abort, but waiting is refused and it must not
 * free the communicator. */
typedef void (*tutti_completion_fn)(tutti_status_t status, const char* message, void* context);

/* Sets the only callback of a request; it is called at once if the request is over already. */
TUTTI_C_EXPORT tutti_status_t tutti_request_set_callback(tutti_request_t* request,
                                                         tutti_completion_fn callback,
                                                         void* context);

/* Frees the handle of a request; a collective under way goes on. NULL is allowed. */
TUTTI_C_EXPORT void tutti_request_free(tutti_request_t* request);

/* ---- Observation ----------------------------------------------------------------------------- */

typedef void (*tutti_counter_fn)(const char* name, uint64_t value, void* context);

/* Calls `visit` for every protocol and device counter, in the calling thread. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_counters(const tutti_comm_t* comm, tutti_counter_fn visit,
                                                  void* context);
/* The flight record: the last collectives with phase and progress, as JSON. The caller frees *json
 * by tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_flight_record(const tutti_comm_t* comm, char** json);
/* Device, interface, group and limits, as a few lines of text. The caller frees *text by
 * tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_describe(const tutti_comm_t* comm, char** text);

#ifdef __cplusplus
} /* extern "C" */
#endif
