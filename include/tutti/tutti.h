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
 * collectives in the same order. Only one thread at a time may use a request or a prepared
 * collective, except that any thread may call tutti_request_progress. A thread that is cancelled
 * (pthread_cancel) in a call completes the call first.
 *
 * Fork: in a child of fork() the parent's communicators, requests and prepared collectives give
 * TUTTI_INVALID_ARGUMENT, and their destruction leaks them. Neither affects the parent. The child
 * may create communicators of its own. A completion callback must not return in a child. */
#pragma once

#include "tutti/c/collectives.h"
#include "tutti/c/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages from rank to rank -------------------------------------------------------------- */

/* As `from` of a receive: a message of any rank. */
#define TUTTI_ANY_RANK UINT32_MAX

/* The message that a receive has got. */
typedef struct tutti_message {
  size_t size;     /* sizeof(tutti_message_t), set by the caller */
  uint32_t source; /* rank that sent it */
  uint64_t tag;
  uint64_t bytes; /* length of the message as sent, which may exceed the buffer */
} tutti_message_t;

#define TUTTI_MESSAGE_INIT \
  { sizeof(tutti_message_t), 0, 0, 0 }

/* Sends `bytes` bytes with a tag to rank `to`, which may be this rank. Messages to one rank that
 * match the same receive are received in the order in which they are sent. A rank may send and
 * receive messages at any point in the order of its collectives. tutti_send returns, and the
 * request of tutti_isend is done, when `message` may be changed: at once for a short message that
 * finds room at the receiver, otherwise when a receive has got it. */
TUTTI_C_EXPORT tutti_status_t tutti_send(tutti_comm_t* comm, const void* message, size_t bytes,
                                         uint32_t to, uint64_t tag);
TUTTI_C_EXPORT tutti_status_t tutti_isend(tutti_comm_t* comm, const void* message, size_t bytes,
                                          uint32_t to, uint64_t tag, tutti_request_t** request);

/* Receives one message of rank `from`, or of any rank (TUTTI_ANY_RANK), whose tag agrees with `tag`
 * in the bits of `tag_mask`: UINT64_MAX for an equal tag, 0 for any tag. The message may be shorter
 * than the `capacity` bytes of `buffer`. A longer message is lost, and the receive gives
 * TUTTI_INVALID_ARGUMENT. A receive from a rank that has died ends after the peer timeout; a
 * receive from TUTTI_ANY_RANK ends if any rank dies. tutti_recv stores source, tag and length in
 * *message, which may be NULL. */
TUTTI_C_EXPORT tutti_status_t tutti_recv(tutti_comm_t* comm, void* buffer, size_t capacity,
                                         uint32_t from, uint64_t tag, uint64_t tag_mask,
                                         tutti_message_t* message);
TUTTI_C_EXPORT tutti_status_t tutti_irecv(tutti_comm_t* comm, void* buffer, size_t capacity,
                                          uint32_t from, uint64_t tag, uint64_t tag_mask,
                                          tutti_request_t** request);

/* Cancels a receive, which then ends with TUTTI_ABORTED unless it has already got its message.
 * Returns TUTTI_INVALID_ARGUMENT for other calls. The buffer belongs to Tutti until the request is
 * done. */
TUTTI_C_EXPORT tutti_status_t tutti_request_cancel(tutti_request_t* request);
/* Stores in *message the sender, the tag and the length of the message of a receive that is
 * done. */
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
/* As a timeout: the wait has no time limit. */
#define TUTTI_NO_TIMEOUT INT64_MAX

/* As tutti_request_wait, but returns TUTTI_TIMEOUT if the collective is not done after
 * `timeout_ns`. The collective then goes on, and the caller may wait again. tutti_last_error_ranks
 * has the ranks whose data is missing at this rank, as far as this rank knows. In a slot exchange,
 * such as a Barrier of up to 16 ranks, these are all ranks that have not made the call. For a
 * message, or a call that leaders or aggregators carry out, it has no ranks. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_for(tutti_request_t* request, int64_t timeout_ns);

/* Waits until all requests are done. The requests may belong to several communicators; NULLs are
 * skipped. Returns the first failure in the order of the array, or TUTTI_TIMEOUT if some calls are
 * not done after `timeout_ns`; these go on, and the caller may wait again. A call from a completion
 * callback fails at once with TUTTI_INVALID_ARGUMENT. */
TUTTI_C_EXPORT tutti_status_t tutti_request_wait_all(tutti_request_t* const* requests, size_t count,
                                                     int64_t timeout_ns);
/* Waits until one of the requests is done and stores in *index its index in the array; waiting for
 * this request then returns at once. NULLs are skipped. Returns TUTTI_TIMEOUT if no request is done
 * after `timeout_ns`, and TUTTI_INVALID_ARGUMENT if all requests are NULL or if a completion
 * callback calls this function. */
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
 * gets the status of the collective, the error message ("" for success), which is valid during the
 * call, and the context that was set. The request counts as done when the callback has returned.
 * The callback must be short and must not block. It may start collectives, read counters and abort,
 * also of a communicator made from that of the request, or from which that was made, by duplicate,
 * split or subset. Of any other communicator it may only call tutti_comm_abort, which then takes
 * effect soon after; the other functions fail with TUTTI_INVALID_ARGUMENT. It must not wait for a
 * request or destroy the communicator. */
typedef void (*tutti_completion_fn)(tutti_status_t status, const char* message, void* context);

/* Sets the callback of a request, which can have only one. If the request is done already, the
 * callback runs at once in this thread. If this function fails for another reason than a callback
 * that is set already, it may be called again. */
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
 * and progress, and all counters. The caller frees *json by tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_flight_record(const tutti_comm_t* comm, char** json);
/* Stores in *text a few lines that name the communicator's device, interface, multicast group and
 * limits. The caller frees *text by tutti_free_text. */
TUTTI_C_EXPORT tutti_status_t tutti_comm_describe(const tutti_comm_t* comm, char** text);

#ifdef __cplusplus
} /* extern "C" */
#endif
