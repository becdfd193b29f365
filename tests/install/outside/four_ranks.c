/* A program that forks into four ranks. The ranks exchange addresses by the program's own
 * allgather, over files in a temporary folder, and run an Allgather on the communicator and its
 * duplicate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { kRanks = 4, kBytes = 50021, kPathBytes = 128 };

typedef struct {
  const char* folder;
  uint32_t rank;
  int round;
} exchange_t;

static int complain(uint32_t rank, const char* what) {
  fprintf(stderr, "rank %u: %s: %s\n", (unsigned)rank, what, tutti_last_error());
  return 1;
}

static void name_part(char* path, const exchange_t* exchange, uint32_t rank, const char* suffix) {
  snprintf(path, kPathBytes, "%s/%d.%u%s", exchange->folder, exchange->round, (unsigned)rank,
           suffix);
}

static int write_part(const exchange_t* exchange, const void* mine, size_t bytes) {
  char part[kPathBytes];
  char whole[kPathBytes];
  name_part(part, exchange, exchange->rank, ".part");
  name_part(whole, exchange, exchange->rank, "");
  FILE* file = fopen(part, "wb");
  if (file == NULL) return 0;
  const size_t written = bytes == 0 ? 0 : fwrite(mine, 1, bytes, file);
  return fclose(file) == 0 && written == bytes && rename(part, whole) == 0;
}

/* Polls for a file, because a file that another process writes raises no event. */
static int read_part(const exchange_t* exchange, uint32_t rank, void* into, size_t bytes,
                     int64_t timeout_ns) {
  const struct timespec pause = {0, 1000000};
  char path[kPathBytes];
  name_part(path, exchange, rank, "");
  for (int64_t waited_ns = 0; waited_ns < timeout_ns; waited_ns += pause.tv_nsec) {
    FILE* file = fopen(path, "rb");
    if (file != NULL) {
      const size_t count = bytes == 0 ? 0 : fread(into, 1, bytes, file);
      fclose(file);
      return count == bytes;
    }
    nanosleep(&pause, NULL);
  }
  return 0;
}

static tutti_status_t exchange_files(const void* mine, void* all, size_t bytes, int64_t timeout_ns,
                                     void* context) {
  exchange_t* exchange = context;
  int right = write_part(exchange, mine, bytes);
  for (uint32_t rank = 0; right && rank < kRanks; ++rank) {
    right = read_part(exchange, rank, (char*)all + rank * bytes, bytes, timeout_ns);
  }
  ++exchange->round;
  return right ? TUTTI_OK : TUTTI_TIMEOUT;
}

static int check_allgather(tutti_comm_t* comm, uint32_t rank, unsigned seed) {
  unsigned char* all = malloc((size_t)kRanks * kBytes);
  if (all == NULL) return 1;
  memset(all, 0, (size_t)kRanks * kBytes);
  for (size_t i = 0; i < kBytes; ++i) {
    all[rank * (size_t)kBytes + i] = (unsigned char)(i * 7 + seed + rank);
  }
  const tutti_status_t status =
      tutti_allgather(comm, all + rank * (size_t)kBytes, all, kBytes, NULL);
  int wrong = 0;
  for (size_t i = 0; i < (size_t)kRanks * kBytes; ++i) {
    if (all[i] != (unsigned char)(i % kBytes * 7 + seed + i / kBytes)) wrong = 1;
  }
  free(all);
  if (status != TUTTI_OK) return complain(rank, "allgather");
  return wrong ? complain(rank, "allgather delivered wrong bytes") : 0;
}

static int run_rank(exchange_t* exchange) {
  const uint32_t rank = exchange->rank;
  tutti_comm_t* comm = NULL;
  tutti_comm_t* other = NULL;
  if (tutti_comm_create_with_callback(exchange_files, exchange, rank, kRanks, NULL, &comm) !=
      TUTTI_OK) {
    return complain(rank, "cannot create the communicator");
  }
  int failed = 0;
  if (tutti_comm_duplicate(comm, NULL, &other) != TUTTI_OK)
    failed = complain(rank, "cannot duplicate the communicator");
  if (!failed) failed = check_allgather(comm, rank, 3) | check_allgather(other, rank, 90);
  tutti_comm_destroy(other);
  tutti_comm_destroy(comm);
  if (!failed) printf("rank %u of %d: right\n", (unsigned)rank, kRanks);
  return failed;
}

static void remove_files(exchange_t* exchange) {
  char path[kPathBytes];
  while (exchange->round-- > 0) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      name_part(path, exchange, rank, "");
      unlink(path);
    }
  }
  rmdir(exchange->folder);
}

int main(void) {
  char folder[] = "/tmp/tutti-four-XXXXXX";
  if (mkdtemp(folder) == NULL) return 2;
  exchange_t exchange = {folder, 0, 0};
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    const pid_t child = fork(); /* forks before any thread exists */
    if (child < 0) return 2;
    if (child == 0) {
      exchange.rank = rank;
      return run_rank(&exchange);
    }
  }
  int failed = run_rank(&exchange);
  int status = 0;
  while (wait(&status) > 0) failed |= status != 0;
  remove_files(&exchange);
  return failed;
}
