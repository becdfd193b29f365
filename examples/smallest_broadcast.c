/* The smallest program with a Broadcast in C: rank 0 sends a sentence to all ranks. Start it
 * directly for one rank, or by a launcher for several ranks:
 *
 *   tutti run -n 4 -- build/release/examples/smallest_broadcast */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

int main(void) {
  tutti_comm_t* comm = NULL;
  if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
    fprintf(stderr, "cannot create the communicator: %s\n", tutti_last_error());
    return 1;
  }
  uint32_t rank = 0;
  uint32_t size = 0;
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &size);

  char sentence[64] = "";
  if (rank == 0) strcpy(sentence, "one sender, all receivers, each link once");
  const tutti_status_t status = tutti_broadcast(comm, sentence, sizeof sentence, 0, NULL);
  if (status == TUTTI_OK) {
    printf("rank %u of %u: %s\n", rank, size, sentence);
  } else {
    fprintf(stderr, "rank %u: %s: %s\n", rank, tutti_status_string(status), tutti_last_error());
  }
  tutti_comm_destroy(comm);
  return status == TUTTI_OK ? 0 : 1;
}
