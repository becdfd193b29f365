/* The part of tutti.h for collectives; programs include tutti/tutti.h. */
#pragma once

#include "tutti/c/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The algorithms that have a number; tutti_call_options_t::algorithm_name selects any other. */
enum {
  TUTTI_ALGORITHM_AUTOMATIC = 0, /* chosen from the algorithm table */
  TUTTI_ALGORITHM_MULTICAST = 1, /* reliable multicast */
  TUTTI_ALGORITHM_RING = 2       /* ring of ranks; for Broadcast a chain from the root */
};

/* Options of one collective; 0 or NULL in a field selects its default. All ranks must pass the same
 * options, except will_wait and priority. */
typedef struct tutti_call_options {
  size_t size;        /* sizeof(tutti_call_options_t) */
  uint32_t algorithm; /* TUTTI_ALGORITHM_... */
  uint32_t ports;     /* number of ports k of a k-port algorithm */
  uint32_t radix;     /* radix k of a k-nomial tree */
  uint32_t segments;  /* number of segments into which a pipelined message is cut */
  /* Name that `tutti explain` lists; takes precedence over `algorithm`. */
  const char* algorithm_name;
  /* Not 0: the caller waits for the request right after the start, so that the progress thread is
   * not woken. Blocking functions imply this option. */
  uint32_t will_wait;
  uint32_t unused; /* ignored: callers of earlier versions leave it undefined */
  /* TUTTI_PRIORITY_...: ready data of this call is sent before ready data of calls of this process
   * that have a lower priority. The priority may differ between ranks; shared memory ignores it. */
  int32_t priority;
} tutti_call_options_t;

/* The priority of a call. */
enum { TUTTI_PRIORITY_LOW = -1, TUTTI_PRIORITY_NORMAL = 0, TUTTI_PRIORITY_HIGH = 1 };

#define TUTTI_CALL_OPTIONS_INIT \
  { sizeof(tutti_call_options_t), 0, 0, 0, 0, NULL, 0, 0, 0 }

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
 * of `receive`. Both buffers have one block of `bytes` bytes for each rank. In place, both are the
 * same buffer; the call then copies what it sends. */
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
 * offsets[r] of the buffer that holds all blocks. The arrays have one entry for each rank and are
 * read only during the call. The lengths of buffers are in bytes. All ranks must agree on the size
 * of each block. Ranks other than the root may pass NULL for `all`, `sizes` and `offsets`. */
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
/* The block of `send` for rank r has send_sizes[r] bytes; the block of `receive` from rank r has
 * sizes[r] bytes. In place, both are the same buffer, as for tutti_alltoall. */
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
/* `sizes` and `offsets` describe `all`, in bytes, and must be equal on all ranks. In place, `own`
 * is this rank's block of `all`. */
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

/* Any collective and its arguments. The function of the same collective describes the arguments; an
 * argument that this function does not have is 0 or NULL. All lengths are in bytes, also those of
 * reductions. Broadcast uses `receive` on all ranks. Tutti reads this structure, and the structures
 * and arrays to which it points, only during the call. */
typedef struct tutti_call {
  size_t size;         /* sizeof(tutti_call_t) */
  uint32_t collective; /* TUTTI_BARRIER to TUTTI_REDUCE_SCATTERV */
  uint32_t root;       /* root of the collective, if it has one */
  const void* send;
  size_t send_bytes; /* length of the whole buffer */
  void* receive;
  size_t receive_bytes;
  const tutti_reduction_t* reduction;
  /* Blocks of `receive`: Allgatherv, Alltoallv, Gatherv at the root. */
  const uint64_t* sizes;
  const uint64_t* offsets;
  /* Blocks of `send`: Alltoallv, Reduce-Scatterv, Scatterv at the root. */
  const uint64_t* send_sizes;
  const uint64_t* send_offsets;
  const tutti_call_options_t* options;
} tutti_call_t;

#define TUTTI_CALL_INIT(collective) \
  { sizeof(tutti_call_t), (collective), 0, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL }

/* Starts the collective that *call describes and stores its request in *request. The buffers belong
 * to Tutti until the request is done. The caller frees *request by tutti_request_free. */
TUTTI_C_EXPORT tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call,
                                          tutti_request_t** request);

/* Starts together the `count` collectives that `calls` describes, in the order of the array, and
 * stores their requests in `requests`. If one call is wrong, no collective starts, and all entries
 * of `requests` are NULL. If memory runs out after some collectives have started, only these
 * collectives have a request, and the caller must wait for these requests and free them.
 *
 *   const tutti_call_t* calls[] = {&gather, &reduce};
 *   tutti_request_t* requests[2];
 *   tutti_status_t status = tutti_start_all(comm, calls, 2, requests);
 *   if (status == TUTTI_OK) status = tutti_request_wait_all(requests, 2, TUTTI_NO_TIMEOUT); */
TUTTI_C_EXPORT tutti_status_t tutti_start_all(tutti_comm_t* comm, const tutti_call_t* const* calls,
                                              size_t count, tutti_request_t** requests);

/* A collective that is started many times on the same buffers (persistent, in MPI): its arguments
 * are checked and its algorithm is chosen only once. */
typedef struct tutti_prepared tutti_prepared_t;

/* Stores in *prepared an object that can start the collective of *call many times. This function
 * does not communicate. The buffers must outlive the object, which the caller frees by
 * tutti_prepared_free.
 *
 *   tutti_call_t call = TUTTI_CALL_INIT(TUTTI_ALLGATHER);
 *   call.send = own, call.send_bytes = bytes;
 *   call.receive = all, call.receive_bytes = size * bytes;
 *   tutti_prepare(comm, &call, &prepared); */
TUTTI_C_EXPORT tutti_status_t tutti_prepare(tutti_comm_t* comm, const tutti_call_t* call,
                                            tutti_prepared_t** prepared);
/* Starts the collective once more, as tutti_start does; all ranks must call this function equally
 * often. Returns TUTTI_INVALID_ARGUMENT while the previous run is under way. */
TUTTI_C_EXPORT tutti_status_t tutti_prepared_start(tutti_prepared_t* prepared,
                                                   tutti_request_t** request);
/* Frees the handle; a run that is under way goes on. NULL is allowed. */
TUTTI_C_EXPORT void tutti_prepared_free(tutti_prepared_t* prepared);

#ifdef __cplusplus
} /* extern "C" */
#endif
