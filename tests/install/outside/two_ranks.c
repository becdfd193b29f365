/* A C program that forks into two ranks, which find each other by a unique id sent through a pipe.
 * The program checks the result of every call and reports it by its exit status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { kBytes = 100003 };

static int complain(uint32_t rank, const char* what) {
  fprintf(stderr, "rank %u: %s: %s\n", rank, what, tutti_last_error());
  return 1;
}

static void fill(unsigned char* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) bytes[i] = (unsigned char)(i * 31 + seed * 17 + i / 251);
}

static int is_filled(const unsigned char* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != (unsigned char)(i * 31 + seed * 17 + i / 251)) return 0;
  }
  return 1;
}

static int check_broadcast(tutti_comm_t* comm, uint32_t rank, uint32_t root) {
  unsigned char* bytes = calloc(kBytes, 1);
  if (rank == root) fill(bytes, kBytes, root + 1);
  const tutti_status_t status = tutti_broadcast(comm, bytes, kBytes, root, NULL);
  const int right = is_filled(bytes, kBytes, root + 1);
  free(bytes);
  if (status != TUTTI_OK) return complain(rank, "broadcast");
  return right ? 0 : complain(rank, "broadcast delivered wrong bytes");
}

static int check_allgather(tutti_comm_t* comm, uint32_t rank) {
  unsigned char* all = calloc(2, kBytes);
  fill(all + rank * kBytes, kBytes, 40 + rank);
  tutti_request_t* request = NULL;
  tutti_status_t status = tutti_iallgather(comm, all + rank * kBytes, all, kBytes, NULL, &request);
  if (status == TUTTI_OK) status = tutti_request_wait(request);
  tutti_request_free(request);
  const int right = is_filled(all, kBytes, 40) && is_filled(all + kBytes, kBytes, 41);
  free(all);
  if (status != TUTTI_OK) return complain(rank, "allgather");
  return right ? 0 : complain(rank, "allgather delivered wrong bytes");
}

static int run_rank(uint32_t rank, const tutti_unique_id_t* id) {
  tutti_comm_t* comm = NULL;
  if (tutti_comm_create_with_id(id, rank, 2, NULL, &comm) != TUTTI_OK) {
    return complain(rank, "cannot create the communicator");
  }
  int failed =
      check_broadcast(comm, rank, 0) | check_broadcast(comm, rank, 1) | check_allgather(comm, rank);
  if (tutti_barrier(comm, NULL) != TUTTI_OK) failed |= complain(rank, "barrier");
  tutti_comm_destroy(comm);
  return failed;
}

int main(void) {
  int ends[2];
  if (pipe(ends) != 0) return 2;
  const pid_t child = fork(); /* forks before any thread exists */
  if (child < 0) return 2;
  tutti_unique_id_t id;
  if (child == 0) {
    close(ends[1]);
    if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) return 2;
    return run_rank(1, &id);
  }
  close(ends[0]);
  if (tutti_unique_id_create("127.0.0.1", &id) != TUTTI_OK) return complain(0, "no id");
  if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 2;
  close(ends[1]);
  int failed = run_rank(0, &id);
  int status = 0;
  waitpid(child, &status, 0);
  failed |= status != 0;
  if (!failed) printf("two ranks of Tutti %s agree\n", tutti_version());
  return failed;
}
