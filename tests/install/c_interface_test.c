/* Tests the whole C interface: three ranks as threads, which bootstrap by a callback, and every
 * misuse.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { kRanks = 3, kBytes = 5001, kRetainBytes = 3000 };

static int failures = 0;
static pthread_mutex_t failures_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Counts and prints a check that failed. */
static void check(int holds, const char* what, int line) {
  if (holds) return;
  pthread_mutex_lock(&failures_mutex);
  ++failures;
  fprintf(stderr, "line %d: %s (last error: %s)\n", line, what, tutti_last_error());
  pthread_mutex_unlock(&failures_mutex);
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define CHECK_OK(call) check((call) == TUTTI_OK, #call, __LINE__)
#define CHECK_INVALID(call) check((call) == TUTTI_INVALID_ARGUMENT, #call, __LINE__)

/* ---- An allgather among threads, as a program passes it to the callback --------------
 */

struct exchange {
  pthread_barrier_t barrier;
  unsigned char bytes[kRanks][1 << 16];
};

struct member {
  struct exchange* exchange;
  uint32_t rank;
};

static tutti_status_t gather(const void* mine, void* all, size_t bytes, int64_t timeout_ns,
                             void* context) {
  struct member* member = context;
  if (timeout_ns < 0 || bytes > sizeof member->exchange->bytes[0]) return TUTTI_INVALID_ARGUMENT;
  memcpy(member->exchange->bytes[member->rank], mine, bytes);
  pthread_barrier_wait(&member->exchange->barrier);
  for (int r = 0; r < kRanks; ++r) {
    memcpy((unsigned char*)all + (size_t)r * bytes, member->exchange->bytes[r], bytes);
  }
  pthread_barrier_wait(&member->exchange->barrier);
  return TUTTI_OK;
}

/* The calls that each rank makes. */

static void check_misuse_of_comm(tutti_comm_t* comm) {
  unsigned char bytes[8] = {0};
  CHECK_INVALID(tutti_broadcast(NULL, bytes, sizeof bytes, 0, NULL));
  CHECK_INVALID(tutti_broadcast(comm, NULL, sizeof bytes, 0, NULL));
  CHECK_INVALID(tutti_broadcast(comm, bytes, sizeof bytes, kRanks, NULL));
  CHECK(strstr(tutti_last_error(), "root 3") != NULL);
  CHECK_INVALID(tutti_allgather(comm, bytes, NULL, sizeof bytes, NULL));
  CHECK_INVALID(tutti_allgather(comm, NULL, bytes, sizeof bytes, NULL));
  CHECK_INVALID(tutti_allgather(comm, bytes, bytes, SIZE_MAX / 2, NULL));
  CHECK_INVALID(tutti_ibarrier(comm, NULL, NULL));
  tutti_call_options_t options = TUTTI_CALL_OPTIONS_INIT;
  options.algorithm = 99;
  CHECK_INVALID(tutti_barrier(comm, &options));
  options.size = 0;
  CHECK_INVALID(tutti_barrier(comm, &options));
  CHECK_INVALID(tutti_comm_rank(comm, NULL));
  CHECK_INVALID(tutti_comm_counters(comm, NULL, NULL));
  CHECK_INVALID(tutti_comm_flight_record(comm, NULL));
  CHECK_INVALID(tutti_comm_duplicate(comm, NULL, NULL));
  CHECK_INVALID(tutti_comm_status(NULL));
  CHECK_INVALID(tutti_comm_finalize(NULL, 0));
  CHECK_INVALID(tutti_comm_finalize(comm, -1));
  CHECK_OK(tutti_comm_status(comm));
}

struct ending {
  int calls;
  tutti_status_t status;
  char message[8];
};

static void on_end(tutti_status_t status, const char* message, void* context) {
  struct ending* ending = context;
  ++ending->calls;
  ending->status = status;
  strncpy(ending->message, message, sizeof ending->message - 1);
}

static void check_requests(tutti_comm_t* comm, uint32_t rank) {
  static unsigned char own[kRanks][kBytes];
  static unsigned char all[kRanks][kRanks * kBytes];
  memset(own[rank], (int)(rank + 1), kBytes);
  tutti_request_t* request = NULL;
  struct ending ending = {0, -1, ""};
  CHECK_OK(tutti_iallgather(comm, own[rank], all[rank], kBytes, NULL, &request));
  CHECK_OK(tutti_request_set_callback(request, on_end, &ending));
  CHECK_INVALID(tutti_request_set_callback(request, on_end, &ending));
  CHECK_INVALID(tutti_request_wait_for(request, -1));
  int done = 0;
  while (!done) CHECK_OK(tutti_request_test(request, &done));
  CHECK_OK(tutti_request_wait(request));
  CHECK_OK(tutti_request_wait_for(request, 0));
  CHECK(ending.calls == 1 && ending.status == TUTTI_OK && ending.message[0] == '\0');
  tutti_progress_t progress = TUTTI_PROGRESS_INIT;
  CHECK_OK(tutti_request_progress(request, &progress));
  CHECK(progress.done == 1 && progress.chunks_present == progress.chunks_total);
  progress.size = 1;
  CHECK_INVALID(tutti_request_progress(request, &progress));
  tutti_request_free(request);
  for (uint32_t r = 0; r < kRanks; ++r) {
    for (int i = 0; i < kBytes; ++i) {
      if (all[rank][r * kBytes + (uint32_t)i] == r + 1) continue;
      CHECK(!"the allgather delivered wrong bytes");
      return;
    }
  }
}

static tutti_status_t alone(const void* mine, void* all, size_t bytes, int64_t timeout_ns,
                            void* context) {
  (void)timeout_ns, (void)context;
  memcpy(all, mine, bytes);
  return TUTTI_OK;
}

static void set_in_callback(tutti_status_t status, const char* message, void* request) {
  CHECK(status == TUTTI_OK && message[0] == '\0');
  CHECK_INVALID(tutti_request_set_callback(request, on_end, NULL));
}

/* A callback cannot set one on another engine's request, which can be set later. */
static void check_callback_that_was_refused(void) {
  tutti_comm_t* comms[2] = {NULL, NULL};
  tutti_request_t* requests[2] = {NULL, NULL};
  struct ending ending = {0, -1, ""};
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(tutti_comm_create_with_callback(alone, NULL, 0, 1, NULL, &comms[i]));
    CHECK_OK(tutti_irecv(comms[i], NULL, 0, 0, 1, UINT64_MAX, &requests[i]));
  }
  CHECK_OK(tutti_request_set_callback(requests[0], set_in_callback, requests[1]));
  for (int i = 0; i < 2; ++i) {
    if (i == 1) CHECK_OK(tutti_request_set_callback(requests[1], on_end, &ending));
    CHECK_OK(tutti_send(comms[i], NULL, 0, 0, 1));
    CHECK_OK(tutti_request_wait(requests[i]));
    tutti_request_free(requests[i]);
    tutti_comm_destroy(comms[i]);
  }
  CHECK(ending.calls == 1 && ending.status == TUTTI_OK);
}

/* Each rank sends one short and one long message to the next rank, and cancels a receive. */
static void check_messages(tutti_comm_t* comm, uint32_t rank) {
  enum { kLong = 100000 };
  static unsigned char out[kRanks][kLong];
  static unsigned char in[kRanks][kLong];
  const uint32_t next = (rank + 1) % kRanks;
  const uint32_t previous = (rank + kRanks - 1) % kRanks;
  memset(out[rank], (int)(rank + 1), kLong);
  tutti_request_t* request = NULL;
  tutti_message_t message = TUTTI_MESSAGE_INIT;
  CHECK_OK(tutti_send(comm, out[rank], 10, next, 70 + rank));
  CHECK_OK(tutti_recv(comm, in[rank], kLong, TUTTI_ANY_RANK, 64, ~(uint64_t)15, &message));
  CHECK(message.source == previous && message.tag == 70 + previous && message.bytes == 10);
  CHECK(in[rank][0] == previous + 1 && in[rank][9] == previous + 1 && in[rank][10] == 0);
  CHECK_OK(tutti_isend(comm, out[rank], kLong, next, 5, &request));
  CHECK_INVALID(tutti_request_cancel(request));
  CHECK_OK(tutti_recv(comm, in[rank], kLong, previous, 5, UINT64_MAX, NULL));
  CHECK(in[rank][kLong - 1] == previous + 1);
  CHECK_OK(tutti_request_wait(request));
  tutti_request_free(request);
  CHECK_OK(tutti_irecv(comm, in[rank], kLong, previous, 6, UINT64_MAX, &request));
  CHECK_OK(tutti_request_cancel(request));
  CHECK(tutti_request_wait(request) == TUTTI_ABORTED);
  message.size = 1;
  CHECK_INVALID(tutti_request_message(request, &message));
  tutti_request_free(request);
  CHECK_INVALID(tutti_send(comm, out[rank], 1, kRanks, 0));
  CHECK_INVALID(tutti_send(comm, NULL, 1, next, 0));
  CHECK_INVALID(tutti_isend(comm, out[rank], 1, next, 0, NULL));
  CHECK_INVALID(tutti_recv(NULL, in[rank], 1, previous, 0, 0, NULL));
  CHECK_INVALID(tutti_request_message(NULL, &message));
  CHECK_INVALID(tutti_request_cancel(NULL));
}

/* A prepared Allreduce runs twice, beside a Broadcast that a structure describes. */
static void check_prepared(tutti_comm_t* comm, uint32_t rank) {
  const tutti_reduction_t sum = TUTTI_REDUCTION_INIT(TUTTI_INT32, TUTTI_SUM);
  int32_t own = 0;
  int32_t result = 0;
  unsigned char news[2] = {rank == 1 ? 7 : 0, 0};
  tutti_call_t call = TUTTI_CALL_INIT(TUTTI_ALLREDUCE);
  call.send = &own, call.send_bytes = sizeof own;
  call.receive = &result, call.receive_bytes = sizeof result;
  CHECK_INVALID(tutti_prepare(comm, &call, NULL));
  tutti_prepared_t* prepared = NULL;
  CHECK_INVALID(tutti_prepare(comm, &call, &prepared)); /* lacks its reduction */
  call.reduction = &sum;
  char name[] = "ring";
  tutti_call_options_t options = TUTTI_CALL_OPTIONS_INIT;
  options.algorithm_name = name;
  options.will_wait = 1;
  call.options = &options;
  CHECK_OK(tutti_prepare(comm, &call, &prepared));
  memset(name, 'x', 4); /* the name need only outlive the call */
  tutti_call_t broadcast = TUTTI_CALL_INIT(TUTTI_BROADCAST);
  broadcast.root = 1;
  broadcast.receive = news, broadcast.receive_bytes = sizeof news;
  for (int32_t run = 1; run <= 2; ++run) {
    tutti_request_t* requests[3] = {NULL, NULL, NULL};
    own = run * (int32_t)(rank + 1);
    CHECK_OK(tutti_prepared_start(prepared, &requests[0]));
    CHECK_OK(tutti_start(comm, &broadcast, &requests[2]));
    size_t first = 9;
    CHECK_OK(tutti_request_wait_any(requests, 3, TUTTI_NO_TIMEOUT, &first));
    CHECK(first == 0 || first == 2);
    CHECK_OK(tutti_request_wait_all(requests, 3, TUTTI_NO_TIMEOUT));
    CHECK(result == run * kRanks * (kRanks + 1) / 2 && news[0] == 7);
    tutti_request_free(requests[0]);
    tutti_request_free(requests[2]);
    requests[0] = NULL;
    CHECK_INVALID(tutti_request_wait_any(requests, 1, 0, &first));
    CHECK_INVALID(tutti_request_wait_all(requests, 1, -1));
  }
  call.collective = 99;
  tutti_request_t* request = NULL;
  CHECK_INVALID(tutti_start(comm, &call, &request));
  CHECK_INVALID(tutti_start(comm, NULL, &request));
  CHECK_INVALID(tutti_prepared_start(NULL, &request));
  tutti_prepared_free(prepared);
  tutti_prepared_free(NULL);
}

/* One call starts a Broadcast and an Allgather together. If an invalid call is among them, none
 * starts. */
static void check_group(tutti_comm_t* comm, uint32_t rank) {
  unsigned char news = rank == 0 ? 5 : 0;
  unsigned char own = (unsigned char)rank;
  unsigned char all[kRanks] = {0};
  tutti_call_t broadcast = TUTTI_CALL_INIT(TUTTI_BROADCAST);
  broadcast.receive = &news, broadcast.receive_bytes = 1;
  tutti_call_t gather = TUTTI_CALL_INIT(TUTTI_ALLGATHER);
  gather.send = &own, gather.send_bytes = 1;
  gather.receive = all, gather.receive_bytes = kRanks;
  tutti_call_t wrong = gather;
  wrong.receive_bytes = kRanks + 1;
  const tutti_call_t* calls[3] = {&broadcast, &gather, &wrong};
  tutti_request_t* requests[3] = {NULL, NULL, NULL};
  CHECK_INVALID(tutti_start_all(comm, calls, 3, requests));
  CHECK(strstr(tutti_last_error(), "call 2: allgather") != NULL);
  CHECK(requests[0] == NULL && requests[1] == NULL && requests[2] == NULL);
  CHECK_OK(tutti_start_all(comm, calls, 2, requests));
  CHECK_OK(tutti_request_wait_all(requests, 2, TUTTI_NO_TIMEOUT));
  CHECK(news == 5);
  for (unsigned char r = 0; r < kRanks; ++r) CHECK(all[r] == r);
  tutti_request_free(requests[0]);
  tutti_request_free(requests[1]);
  CHECK_OK(tutti_start_all(comm, NULL, 0, NULL));
  CHECK_INVALID(tutti_start_all(NULL, calls, 2, requests));
  CHECK_INVALID(tutti_start_all(comm, NULL, 1, requests));
  CHECK_INVALID(tutti_start_all(comm, calls, 1, NULL));
}

/* The collectives on blocks of different sizes, with and without gaps between the blocks. */
static void check_varying(tutti_comm_t* comm, uint32_t rank) {
  const uint64_t sizes[kRanks] = {1, 2, 3};
  const uint64_t offsets[kRanks] = {1, 3, 6};
  const uint64_t own[kRanks] = {sizes[rank], sizes[rank], sizes[rank]};
  const uint64_t own_offsets[kRanks] = {0, 4, 8};
  unsigned char out[12] = {0};
  unsigned char in[12] = {0};
  tutti_request_t* request = NULL;
  memset(out, (int)(rank + 1), sizeof out);
  CHECK_OK(tutti_igatherv(comm, out, sizes[rank], rank == 1 ? in : NULL, sizeof in,
                          rank == 1 ? sizes : NULL, offsets, 1, NULL, &request));
  CHECK_OK(tutti_request_wait(request));
  tutti_request_free(request);
  if (rank == 1) {
    const unsigned char wanted[12] = {0, 1, 0, 2, 2, 0, 3, 3, 3, 0, 0, 0};
    CHECK(memcmp(in, wanted, sizeof in) == 0);
  }
  memset(in, 0, sizeof in);
  CHECK_OK(tutti_scatterv(comm, out, sizeof out, sizes, offsets, in, sizes[rank], 2, NULL));
  CHECK(in[0] == 3 && in[sizes[rank] - 1] == 3 && in[sizes[rank]] == 0);
  memset(in, 0, sizeof in);
  CHECK_OK(tutti_alltoallv(comm, out, sizeof out, sizes, offsets, in, sizeof in, own, own_offsets,
                           NULL));
  CHECK(in[0] == 1 && in[4] == 2 && in[8] == 3 && in[3] == 0);
  int32_t words[6] = {0, 1, 2, 3, 4, 5};
  int32_t sum[3] = {-1, -1, -1};
  const uint64_t word_sizes[kRanks] = {4, 8, 12};
  const uint64_t word_offsets[kRanks] = {0, 4, 12};
  const tutti_reduction_t reduction = TUTTI_REDUCTION_INIT(TUTTI_INT32, TUTTI_SUM);
  CHECK_OK(tutti_reduce_scatterv(comm, words, sizeof words, word_sizes, word_offsets, sum,
                                 word_sizes[rank], &reduction, NULL));
  for (uint32_t i = 0; i <= rank; ++i)
    CHECK(sum[i] == (int32_t)(kRanks * (word_offsets[rank] / 4 + i)));
  CHECK_INVALID(
      tutti_alltoallv(comm, out, sizeof out, NULL, offsets, in, sizeof in, own, own_offsets, NULL));
  CHECK_INVALID(
      tutti_alltoallv(comm, out, 5, sizes, offsets, in, sizeof in, own, own_offsets, NULL));
  CHECK(strstr(tutti_last_error(), "does not fit the send buffer of 5 bytes") != NULL);
  CHECK_INVALID(tutti_reduce_scatterv(comm, words, sizeof words, word_sizes, word_offsets, sum, 1,
                                      &reduction, NULL));
}

/* Ranks 0 and 2 form a communicator in the reverse order, and rank 1 joins none. */
static void check_split(tutti_comm_t* comm, uint32_t rank) {
  const uint32_t named[] = {2, 0};
  for (int by_list = 0; by_list < 2; ++by_list) {
    tutti_comm_t* part = comm;
    if (by_list) {
      CHECK_OK(tutti_comm_subset(comm, named, 2, NULL, &part));
    } else {
      const uint32_t color = rank == 1 ? TUTTI_NO_COLOR : 4;
      CHECK_OK(tutti_comm_split(comm, color, -(int64_t)rank, NULL, &part));
    }
    CHECK((part == NULL) == (rank == 1));
    if (part == NULL) continue;
    uint32_t number = 9;
    uint32_t size = 9;
    CHECK_OK(tutti_comm_rank(part, &number));
    CHECK_OK(tutti_comm_size(part, &size));
    CHECK(number == (rank == 0) && size == 2);
    CHECK_OK(tutti_barrier(part, NULL));
    tutti_comm_destroy(part);
  }
  CHECK_INVALID(tutti_comm_subset(comm, NULL, 2, NULL, &comm));
  CHECK_INVALID(tutti_comm_split(comm, 0, 0, NULL, NULL));
}

static void count_one(const char* name, uint64_t value, void* context) {
  if (name[0] != '\0') *(uint64_t*)context += 1;
  (void)value;
}

static void note_kept(const char* name, uint64_t value, void* context) {
  if (strcmp(name, "blocks_retained") == 0) *(uint64_t*)context = value;
}

/* The ranks give different priorities. Options whose size ends before the field priority, as those
 * of an older caller do, have no priority, and the library ignores the bytes that follow. */
static void check_priority(tutti_comm_t* comm, uint32_t rank) {
  uint32_t value = rank == 0 ? 7 : 0;
  tutti_call_options_t options = TUTTI_CALL_OPTIONS_INIT;
  options.priority = (int32_t)rank % 3 - 1;
  CHECK_OK(tutti_broadcast(comm, &value, sizeof value, 0, &options));
  CHECK(value == 7);
  tutti_call_t call = TUTTI_CALL_INIT(TUTTI_BARRIER);
  call.options = &options;
  tutti_prepared_t* prepared = NULL;
  CHECK_OK(tutti_prepare(comm, &call, &prepared));
  tutti_prepared_free(prepared);
  options.priority = 2;
  CHECK_INVALID(tutti_broadcast(comm, &value, sizeof value, 0, &options));
  CHECK(strstr(tutti_last_error(), "priority is 2") != NULL);
  options.size = offsetof(tutti_call_options_t, priority);
  CHECK(options.size == 40);
  options.unused = 0xffffffffu;
  CHECK_OK(tutti_broadcast(comm, &value, sizeof value, 0, &options));
}

/* The root retains the block of a Broadcast of retain_bytes, but not a longer block. */
static void check_copies(tutti_comm_t* comm, uint32_t rank) {
  unsigned char bytes[kRetainBytes + 1] = {0};
  tutti_call_options_t options = TUTTI_CALL_OPTIONS_INIT;
  options.algorithm = TUTTI_ALGORITHM_MULTICAST;
  CHECK_OK(tutti_broadcast(comm, bytes, kRetainBytes + 1, 0, &options));
  CHECK_OK(tutti_broadcast(comm, bytes, kRetainBytes, 0, &options));
  uint64_t kept = 99;
  CHECK_OK(tutti_comm_counters(comm, note_kept, &kept));
  CHECK(kept == (rank == 0 ? 1 : 0));
}

static void check_observation(tutti_comm_t* comm) {
  uint64_t counters = 0;
  CHECK_OK(tutti_comm_counters(comm, count_one, &counters));
  CHECK(counters > 10);
  char* text = NULL;
  CHECK_OK(tutti_comm_flight_record(comm, &text));
  CHECK(text != NULL && text[0] == '{');
  tutti_free_text(text);
  text = NULL;
  CHECK_OK(tutti_comm_describe(comm, &text));
  CHECK(text != NULL && strstr(text, "of 3") != NULL);
  tutti_free_text(text);
}

/* A wait that times out leaves the collective under way, and it ends when the last rank calls. */
static void check_timeout(tutti_comm_t* comm, tutti_comm_t* other, uint32_t rank) {
  tutti_request_t* request = NULL;
  if (rank != 0) {
    CHECK_OK(tutti_ibarrier(comm, NULL, &request));
    CHECK(tutti_request_wait_for(request, 1000000) == TUTTI_TIMEOUT);
    uint32_t late[kRanks] = {99, 99, 99};
    CHECK(tutti_last_error_ranks(late, kRanks) >= 1 && late[0] < kRanks && late[0] != rank);
    CHECK(strstr(tutti_last_error(), "missing here: ") != NULL);
  }
  CHECK_OK(tutti_barrier(other, NULL));
  if (rank == 0) CHECK_OK(tutti_ibarrier(comm, NULL, &request));
  CHECK_OK(tutti_request_wait(request));
  tutti_request_free(request);
}

/* The rank at fault in the last failure, if the failure names exactly one rank; otherwise -1. */
static int only_rank_at_fault(void) {
  uint32_t ranks[2] = {99, 99};
  if (tutti_last_error_ranks(ranks, 2) != 1 || ranks[1] != 99) return -1;
  return (int)ranks[0];
}

/* One rank aborts; the others' collective ends with an error that names it. */
static void check_abort(tutti_comm_t* comm, uint32_t rank) {
  if (rank == 1) {
    CHECK_OK(tutti_comm_abort(comm, "the test wants it"));
    CHECK(tutti_barrier(comm, NULL) == TUTTI_ABORTED);
    CHECK(strstr(tutti_last_error(), "the test wants it") != NULL);
    CHECK(only_rank_at_fault() == 1);
    CHECK(tutti_comm_status(comm) == TUTTI_ABORTED);
    return;
  }
  const tutti_status_t status = tutti_barrier(comm, NULL);
  CHECK(status == TUTTI_ABORTED || status == TUTTI_PEER_FAILED);
  CHECK(strstr(tutti_last_error(), "rank 1") != NULL);
  CHECK(only_rank_at_fault() == 1);
  CHECK(tutti_comm_status(comm) == status);
  CHECK(only_rank_at_fault() == 1);
}

struct cancelled {
  tutti_comm_t* comm;
  atomic_int pending;
  int returned;
};

/* Makes calls while a cancellation of this thread is pending. A call that permitted the
 * cancellation would end the thread. */
static void* call_while_cancelled(void* given) {
  struct cancelled* cancelled = given;
  while (!atomic_load(&cancelled->pending)) {
  }
  tutti_comm_t* duplicate = NULL;
  tutti_request_t* request = NULL;
  CHECK_OK(tutti_barrier(cancelled->comm, NULL));
  CHECK_OK(tutti_ibarrier(cancelled->comm, NULL, &request));
  CHECK_OK(tutti_request_wait(request));
  tutti_request_free(request);
  CHECK_OK(tutti_comm_duplicate(cancelled->comm, NULL, &duplicate));
  CHECK_OK(tutti_barrier(duplicate, NULL));
  tutti_comm_destroy(duplicate);
  cancelled->returned = 1;
  pthread_testcancel();
  return NULL;
}

/* A thread that is cancelled in a call completes the call, and the communicator goes on. */
static void check_cancellation(tutti_comm_t* comm) {
  struct cancelled cancelled = {comm, 0, 0};
  pthread_t thread;
  void* result = NULL;
  CHECK(pthread_create(&thread, NULL, call_while_cancelled, &cancelled) == 0);
  CHECK(pthread_cancel(thread) == 0);
  atomic_store(&cancelled.pending, 1);
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(cancelled.returned && result == PTHREAD_CANCELED);
  CHECK_OK(tutti_barrier(comm, NULL));
}

/* A finalized communicator refuses calls, and can still be observed and destroyed. */
static void check_finalize(tutti_comm_t* comm) {
  CHECK_OK(tutti_comm_finalize(comm, 20000000000));
  CHECK_INVALID(tutti_barrier(comm, NULL));
  CHECK(strstr(tutti_last_error(), "was finalized") != NULL);
  CHECK_INVALID(tutti_comm_status(comm));
  CHECK_INVALID(tutti_comm_finalize(comm, 0));
  uint64_t counters = 0;
  CHECK_OK(tutti_comm_counters(comm, count_one, &counters));
}

static void* run_rank(void* context) {
  struct member* member = context;
  tutti_comm_options_t options = TUTTI_COMM_OPTIONS_INIT;
  options.subgroups = 2;
  options.receive_workers = 2;
  options.device_name = "ip";
  options.keep_bytes = kRetainBytes;
  tutti_comm_t* comm = NULL;
  tutti_comm_t* other = NULL;
  unsigned char key[32] = {7};
  options.job_key = key;
  key[31] = (unsigned char)member->rank;
  CHECK_INVALID(
      tutti_comm_create_with_callback(gather, member, member->rank, kRanks, &options, &comm));
  CHECK(strstr(tutti_last_error(), "the job key of rank") != NULL);
  key[31] = 0;
  CHECK_OK(tutti_comm_create_with_callback(gather, member, member->rank, kRanks, &options, &comm));
  if (comm == NULL) return NULL;
  uint32_t rank = 99;
  uint32_t size = 99;
  CHECK_OK(tutti_comm_rank(comm, &rank));
  CHECK_OK(tutti_comm_size(comm, &size));
  CHECK(rank == member->rank && size == kRanks);
  CHECK_OK(tutti_comm_duplicate(comm, NULL, &other));
  check_misuse_of_comm(comm);
  CHECK_OK(tutti_broadcast(comm, NULL, 0, 0, NULL));
  check_requests(comm, rank);
  check_copies(comm, rank);
  check_priority(comm, rank);
  check_varying(comm, rank);
  check_messages(comm, rank);
  check_prepared(comm, rank);
  check_group(comm, rank);
  check_split(comm, rank);
  check_observation(comm);
  if (other != NULL) {
    check_requests(other, rank);
    check_timeout(comm, other, rank);
    CHECK_OK(tutti_barrier(comm, NULL)); /* a barrier on `other` could end by its abort */
    check_abort(other, rank);
  }
  CHECK_OK(tutti_barrier(comm, NULL));
  check_cancellation(comm);
  check_finalize(comm);
  tutti_comm_destroy(other);
  tutti_comm_destroy(comm);
  return NULL;
}

/* The checks that need no communicator. */

static tutti_status_t refuse(const void* mine, void* all, size_t bytes, int64_t timeout_ns,
                             void* context) {
  (void)mine, (void)all, (void)bytes, (void)timeout_ns, (void)context;
  return TUTTI_PEER_FAILED;
}

static void check_misuse_without_ranks(void) {
  tutti_comm_t* comm = NULL;
  tutti_unique_id_t id;
  memset(&id, 'x', sizeof id);
  CHECK_INVALID(tutti_comm_create(NULL, NULL));
  CHECK_INVALID(tutti_unique_id_create(NULL, NULL));
  CHECK_INVALID(tutti_comm_create_with_id(NULL, 0, 1, NULL, &comm));
  CHECK_INVALID(tutti_comm_create_with_id(&id, 0, 1, NULL, &comm));
  CHECK_INVALID(tutti_comm_create_with_callback(NULL, NULL, 0, 1, NULL, &comm));
  CHECK_INVALID(tutti_comm_create_with_callback(gather, NULL, 2, 2, NULL, &comm));
  CHECK(tutti_comm_create_with_callback(refuse, NULL, 0, 2, NULL, &comm) == TUTTI_PEER_FAILED);
  CHECK_INVALID(tutti_request_wait(NULL));
  CHECK_INVALID(tutti_request_test(NULL, NULL));
  tutti_comm_options_t options = TUTTI_COMM_OPTIONS_INIT;
  options.peer_timeout_ns = -1;
  CHECK_INVALID(tutti_comm_create(&options, &comm));
  options.peer_timeout_ns = 0;
  options.multicast = "pigeon";
  CHECK_INVALID(tutti_comm_create(&options, &comm));
  CHECK(strstr(tutti_last_error(), "use the multicast 'ud' or 'uc', or 'none'") != NULL);
  /* A caller built for a later version passes unknown fields, which are refused only if set. */
  struct {
    tutti_comm_options_t known;
    uint64_t unknown;
  } later = {TUTTI_COMM_OPTIONS_INIT, 1};
  later.known.size = sizeof later;
  CHECK(tutti_comm_create(&later.known, &comm) == TUTTI_UNSUPPORTED);
  CHECK(comm == NULL);
  later.unknown = 0;
  CHECK_OK(tutti_comm_create(&later.known, &comm));
  tutti_comm_destroy(comm);
  tutti_comm_destroy(NULL);
  tutti_request_free(NULL);
  tutti_free_text(NULL);
}

static void check_texts(void) {
  CHECK(strcmp(tutti_last_error(), "") == 0);
  CHECK(tutti_last_error_ranks(NULL, 0) == 0);
  CHECK(strcmp(tutti_status_string(TUTTI_PEER_FAILED), "peer_failed") == 0);
  CHECK(strcmp(tutti_status_string(-5), "unknown") == 0);
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
           TUTTI_VERSION_PATCH);
  CHECK(strcmp(tutti_version(), version) == 0);
}

/* An exit handler runs after the thread-local objects of its thread have ended. */
static void fail_at_exit(void) {
  CHECK_INVALID(tutti_request_wait(NULL));
  CHECK(strcmp(tutti_last_error(), tutti_status_string(TUTTI_INVALID_ARGUMENT)) == 0);
  CHECK(tutti_last_error_ranks(NULL, 0) == 0);
  if (failures != 0) _Exit(1);
}

int main(void) {
  atexit(fail_at_exit);
  check_texts();
  check_misuse_without_ranks();
  check_callback_that_was_refused();
  static struct exchange exchange;
  pthread_barrier_init(&exchange.barrier, NULL, kRanks);
  pthread_t threads[kRanks];
  struct member members[kRanks];
  for (uint32_t r = 0; r < kRanks; ++r) {
    members[r] = (struct member){&exchange, r};
    pthread_create(&threads[r], NULL, run_rank, &members[r]);
  }
  for (int r = 0; r < kRanks; ++r) pthread_join(threads[r], NULL);
  pthread_barrier_destroy(&exchange.barrier);
  if (failures == 0) printf("all checks of the C interface passed\n");
  return failures == 0 ? 0 : 1;
}
