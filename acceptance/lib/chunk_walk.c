/* Runs one loss-free Allgather of one chunk from each rank, under `tutti run`. Rank 0 writes the
 * functions of libtutti.so that it entered, as offsets, one a line, in the order of their first
 * call. The library is compiled with -finstrument-functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { kBytes = 1000, kWarmUps = 3, kSlots = 1 << 16 };

static atomic_int recording;
static _Atomic(void*) seen[kSlots]; /* hash set of functions */
static void* order[kSlots];         /* functions in the order of their first call */
static atomic_int entered;

/* Called by the compiler's instrumentation. */
void __cyg_profile_func_enter(void* function, void* caller) __attribute__((no_instrument_function));
void __cyg_profile_func_exit(void* function, void* caller) __attribute__((no_instrument_function));

void __cyg_profile_func_enter(void* function, void* caller) {
  (void)caller;
  if (!atomic_load_explicit(&recording, memory_order_relaxed)) return;
  uint32_t slot = (uint32_t)(((uintptr_t)function >> 2) * 2654435761u) % kSlots;
  for (;; slot = (slot + 1) % kSlots) {
    void* other = NULL;
    if (atomic_compare_exchange_strong(&seen[slot], &other, function)) break;
    if (other == function) return;
  }
  const int at = atomic_fetch_add(&entered, 1);
  if (at < kSlots) order[at] = function;
}

void __cyg_profile_func_exit(void* function, void* caller) {
  (void)function;
  (void)caller;
}

static int complain(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tutti_last_error());
  return 1;
}

static int allgather(tutti_comm_t* comm, const void* mine, void* all) {
  return tutti_allgather(comm, mine, all, kBytes, NULL) == TUTTI_OK;
}

int main(int argc, char** argv) {
  static char mine[kBytes], all[2 * kBytes];
  if (argc != 2) return 2;
  tutti_comm_t* comm = NULL;
  if (tutti_comm_create(NULL, &comm) != TUTTI_OK) return complain("create");
  uint32_t rank = 0;
  if (tutti_comm_rank(comm, &rank) != TUTTI_OK) return complain("rank");
  memset(mine, (int)rank + 1, sizeof mine);
  for (int i = 0; i < kWarmUps; ++i)
    if (!allgather(comm, mine, all)) return complain("warm-up");
  atomic_store(&recording, rank == 0);
  const int ended = allgather(comm, mine, all);
  atomic_store(&recording, 0);
  if (!ended) return complain("Allgather");
  if (all[0] != 1 || all[kBytes] != 2) return 1;
  if (rank == 0) {
    FILE* out = fopen(argv[1], "w");
    if (out == NULL) return 1;
    for (int i = 0; i < entered && i < kSlots; ++i) {
      Dl_info info;
      if (dladdr(order[i], &info) != 0)
        fprintf(out, "%s %lx\n", info.dli_fname, (unsigned long)((char*)order[i] - (char*)info.dli_fbase));
    }
    fclose(out);
  }
  tutti_comm_destroy(comm);
  return 0;
}
