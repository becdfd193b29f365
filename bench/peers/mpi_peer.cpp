// Measures the collectives of an MPI library. This file is compiled once for each MPI library, by
// its compiler wrapper.
#include <mpi.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "contender.hpp"

namespace {

using tutti::bench::Contender;
using tutti::bench::Work;

class MpiContender final : public Contender {
 public:
  MpiContender() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    lanes_[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &lanes_[1]);
  }

  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole(text, static_cast<std::size_t>(length));
    return whole.substr(0, whole.find_first_of(",\n"));
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void broadcast(std::byte* data, std::size_t bytes) override {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void allgather(const std::byte* input, std::byte* output, std::size_t bytes) override {
    const int count = static_cast<int>(bytes);
    MPI_Allgather(input, count, MPI_BYTE, output, count, MPI_BYTE, MPI_COMM_WORLD);
  }

  void reduce_scatter(const std::byte* input, std::byte* output, std::size_t bytes) override {
    MPI_Reduce_scatter_block(input, output, floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void allreduce(const std::byte* input, std::byte* output, std::size_t bytes) override {
    MPI_Allreduce(input, output, floats(bytes), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void start(const Work& work, int lane) override {
    const int count = static_cast<int>(work.bytes);
    const MPI_Comm comm = lanes_[static_cast<std::size_t>(lane)];
    MPI_Request request = MPI_REQUEST_NULL;
    switch (work.kind) {
      case Work::Kind::broadcast:
        MPI_Ibcast(work.output, count, MPI_BYTE, 0, comm, &request);
        break;
      case Work::Kind::allgather:
        MPI_Iallgather(work.input, count, MPI_BYTE, work.output, count, MPI_BYTE, comm, &request);
        break;
      case Work::Kind::reduce_scatter:
        MPI_Ireduce_scatter_block(work.input, work.output, floats(work.bytes), MPI_FLOAT, MPI_SUM,
                                  comm, &request);
        break;
      case Work::Kind::allreduce:
        MPI_Iallreduce(work.input, work.output, floats(work.bytes), MPI_FLOAT, MPI_SUM, comm,
                       &request);
        break;
    }
    requests_.push_back(request);
  }
  void finish() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

  void send(const std::byte* data, std::size_t bytes, int count, int to) override {
    const int length = static_cast<int>(bytes);
    if (count == 1) {
      MPI_Send(data, length, MPI_BYTE, to, kTag, MPI_COMM_WORLD);
      return;
    }
    requests_.resize(static_cast<std::size_t>(count));
    for (MPI_Request& request : requests_)
      MPI_Isend(data, length, MPI_BYTE, to, kTag, MPI_COMM_WORLD, &request);
    finish();
  }
  void receive(std::byte* data, std::size_t bytes, int count, int from) override {
    const int length = static_cast<int>(bytes);
    if (count == 1) {
      MPI_Recv(data, length, MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      return;
    }
    requests_.resize(static_cast<std::size_t>(count));
    for (MPI_Request& request : requests_) {
      MPI_Irecv(data, length, MPI_BYTE, from, kTag, MPI_COMM_WORLD, &request);
      data += bytes;
    }
    finish();
  }

  std::vector<std::int64_t> gather(std::int64_t value) override {
    std::vector<std::int64_t> values(rank_ == 0 ? static_cast<std::size_t>(ranks_) : 0);
    MPI_Gather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return values;
  }
  std::int64_t share(std::int64_t value) override {
    MPI_Bcast(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return value;
  }

 private:
  static constexpr int kTag = 1;

  static int floats(std::size_t bytes) { return static_cast<int>(bytes / sizeof(float)); }

  int rank_ = 0;
  int ranks_ = 0;
  std::array<MPI_Comm, 2> lanes_{};
  std::vector<MPI_Request> requests_;
};

// Exit status if MPI_Finalize hangs. It means success, because all results are already printed.
constexpr int kFinalizeHung = 0;

constexpr char kHungNotice[] = "mpi_peer: MPI_Finalize hung; left without it\n";

extern "C" void leave_hung_finalize(int) {
  const ssize_t written = write(STDERR_FILENO, kHungNotice, sizeof(kHungNotice) - 1);
  _exit(written < 0 ? 1 : kFinalizeHung);
}

/// Calls MPI_Finalize, and ends the process if the call does not return in time. The call often
/// hangs with MPICH 4.0 over UCX.
void finalize_within(long patience_ms) {
  std::signal(SIGALRM, leave_hung_finalize);
  const itimerval timer{{0, 0}, {patience_ms / 1000, (patience_ms % 1000) * 1000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::int64_t wrong_bytes = 0;
  try {
    std::vector<std::string> rest;
    const auto options = tutti::bench::parse_options(argc, argv, rest);
    if (!rest.empty()) throw std::runtime_error("unknown option " + rest.front());
    MpiContender contender;
    wrong_bytes = tutti::bench::measure_all(contender, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_peer: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  std::fflush(stdout);
  finalize_within(1000);
  return wrong_bytes == 0 ? 0 : 1;
}
