// The smallest program with an Allgather in C++: every rank sends a number and receives the numbers
// of all ranks. Start it directly for one rank, or by a launcher for several ranks:
//
//   tutti run -n 4 -- build/release/examples/smallest_allgather
#include <tutti/communicator.hpp>

#include <cstdint>
#include <iostream>
#include <span>
#include <vector>

int main() {
  auto comm = tutti::Communicator::create();
  if (!comm) {
    std::cerr << "cannot create the communicator: " << comm.status().to_string() << "\n";
    return 1;
  }
  const std::uint32_t own = 100 + tutti::index(comm->rank());
  std::vector<std::uint32_t> all(comm->size());

  auto request =
      comm->allgather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  if (!request) {
    std::cerr << request.status().to_string() << "\n";
    return 1;
  }
  // The library advances the collective in the background, so the program may compute here.
  if (const tutti::Status status = request->wait(); !status) {
    std::cerr << status.to_string() << "\n";
    return 1;
  }
  std::cout << "rank " << tutti::index(comm->rank()) << ":";
  for (const std::uint32_t one : all) std::cout << ' ' << one;
  std::cout << std::endl;
  return 0;
}
