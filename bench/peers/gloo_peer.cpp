// Measures Gloo's collectives over TCP on one interface. The ranks find each other through a shared
// folder. Gloo has no nonblocking calls, so each collective that start() starts runs on a thread of
// its own. reduce_scatter is not supported, because Gloo lacks it.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>

#include "contender.hpp"

namespace {

using tutti::bench::Contender;
using tutti::bench::Work;

constexpr std::uint32_t kMeasuredTag = 1;
constexpr std::uint32_t kProtocolTag = 2;

class GlooContender final : public Contender {
 public:
  GlooContender(int rank, int ranks, const std::string& interface, const std::string& folder)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = interface;
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }

  std::string version() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
           "." + std::to_string(GLOO_VERSION_PATCH);
  }
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    options.setTag(kProtocolTag);
    gloo::barrier(options);
  }
  void broadcast(std::byte* data, std::size_t bytes) override {
    broadcast_with(kMeasuredTag, reinterpret_cast<char*>(data), bytes);
  }
  void allgather(const std::byte* input, std::byte* output, std::size_t bytes) override {
    gloo::AllgatherOptions options(context_);
    // Gloo takes the input as a non-const pointer but does not write to it.
    options.setInput(const_cast<char*>(reinterpret_cast<const char*>(input)), bytes);
    options.setOutput(reinterpret_cast<char*>(output), bytes * static_cast<std::size_t>(ranks()));
    options.setTag(kMeasuredTag);
    gloo::allgather(options);
  }

  void allreduce(const std::byte* input, std::byte* output, std::size_t bytes) override {
    const std::size_t count = bytes / sizeof(float);
    gloo::AllreduceOptions options(context_);
    options.setInput(const_cast<float*>(reinterpret_cast<const float*>(input)), count);
    options.setOutput(reinterpret_cast<float*>(output), count);
    options.setReduceFunction([](void* to, const void* a, const void* b, std::size_t n) {
      gloo::sum<float>(to, a, b, n);
    });
    options.setTag(kMeasuredTag);
    gloo::allreduce(options);
  }

  void start(const Work& work, int) override {
    started_.push_back(std::async(std::launch::async, [this, work] {
      if (work.kind == Work::Kind::broadcast) broadcast(work.output, work.bytes);
      if (work.kind == Work::Kind::allgather) allgather(work.input, work.output, work.bytes);
      if (work.kind == Work::Kind::allreduce) allreduce(work.input, work.output, work.bytes);
      if (work.kind == Work::Kind::reduce_scatter)
        reduce_scatter(work.input, work.output, work.bytes);
    }));
  }
  void finish() override {
    // After an exception the caller frees its buffers, which all collectives still use.
    for (const std::future<void>& one : started_) one.wait();
    for (std::future<void>& one : started_) one.get();
    started_.clear();
  }

  std::vector<std::int64_t> gather(std::int64_t value) override {
    std::vector<std::int64_t> values(rank() == 0 ? static_cast<std::size_t>(ranks()) : 0);
    gloo::GatherOptions options(context_);
    options.setInput(&value, 1);
    if (rank() == 0) options.setOutput(values.data(), values.size());
    options.setRoot(0);
    options.setTag(kProtocolTag);
    gloo::gather(options);
    return values;
  }
  std::int64_t share(std::int64_t value) override {
    broadcast_with(kProtocolTag, &value, 1);
    return value;
  }

 private:
  template <typename T>
  void broadcast_with(std::uint32_t tag, T* data, std::size_t count) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(data, count);
    options.setRoot(0);
    options.setTag(tag);
    gloo::broadcast(options);
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::future<void>> started_;
};

struct Place {
  int rank = -1;
  int ranks = 0;
  std::string interface;
  std::string folder;
};

Place parse_place(const std::vector<std::string>& rest) {
  Place place;
  for (std::size_t i = 0; i + 1 < rest.size(); i += 2) {
    const std::string& option = rest[i];
    const std::string& value = rest[i + 1];
    if (option == "--rank") {
      place.rank = std::stoi(value);
    } else if (option == "--ranks") {
      place.ranks = std::stoi(value);
    } else if (option == "--interface") {
      place.interface = value;
    } else if (option == "--rendezvous") {
      place.folder = value;
    } else {
      throw std::runtime_error("unknown option " + option);
    }
  }
  if (place.rank < 0 || place.ranks <= place.rank || place.interface.empty() ||
      place.folder.empty()) {
    throw std::runtime_error("needed: --rank R --ranks P --interface NAME --rendezvous FOLDER");
  }
  return place;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> rest;
    const auto options = tutti::bench::parse_options(argc, argv, rest);
    const Place place = parse_place(rest);
    GlooContender contender(place.rank, place.ranks, place.interface, place.folder);
    const std::int64_t wrong_bytes = tutti::bench::measure_all(contender, options);
    // The barrier keeps each rank from closing its connections while another rank still waits for
    // data over these connections.
    contender.barrier();
    return wrong_bytes == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_peer: %s\n", error.what());
    return 2;
  }
}
