// Uses the C++ interface from an outside project, to check that the library exports all that the
// header declares.
#include <tutti/communicator.hpp>

#include <cstddef>
#include <iostream>
#include <vector>

int main() {
  auto comm = tutti::Communicator::create();
  if (!comm) {
    std::cerr << comm.status().to_string() << "\n";
    return 1;
  }
  std::vector<std::byte> bytes(1000, std::byte{7});
  if (auto refused = comm->broadcast(bytes, tutti::rank_of(5)); refused.ok()) return 2;
  auto request = comm->broadcast(bytes, tutti::rank_of(0));
  if (!request) return 3;
  bool called = false;
  if (!comm->on_completion(*request, [&](const tutti::Status& end) { called = end.ok(); }).ok()) {
    return 4;
  }
  if (const tutti::Status status = request->wait(); !status) {
    std::cerr << status.to_string() << "\n";
    return 5;
  }
  if (!called || !request->test() || !request->progress().done) return 6;
  if (comm->counters().empty() || comm->flight_record().empty()) return 7;
  std::cout << comm->describe();
  return 0;
}
