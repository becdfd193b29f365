// Tests the functions of a communicator that return no status: they return empty results and throw
// nothing while memory has run out.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "communicator_ranks.hpp"
#include "device/forwarding_endpoint.hpp"
#include "loopback_device.hpp"

namespace tutti {
namespace {

using namespace test;

class ExhaustedEndpoint final : public device::ForwardingEndpoint {
 public:
  ExhaustedEndpoint(std::unique_ptr<device::Endpoint> inner, const bool& exhausted)
      : ForwardingEndpoint(std::move(inner)), exhausted_(exhausted) {}

  std::string description() const override {
    if (exhausted_) throw std::bad_alloc();
    return ForwardingEndpoint::description();
  }
  device::EndpointCounters counters() const override {
    if (exhausted_) throw std::bad_alloc();
    return ForwardingEndpoint::counters();
  }

 private:
  const bool& exhausted_;
};

class ExhaustedDevice final : public device::Device {
 public:
  std::string name() const override { return "ip"; }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    auto inner = inner_.open(options);
    if (!inner) return inner.status();
    return std::unique_ptr<device::Endpoint>(
        std::make_unique<ExhaustedEndpoint>(std::move(*inner), exhausted));
  }

  bool exhausted = false;

 private:
  device::ip::IpDevice inner_{loopback_options()};
};

TEST(ExhaustedCommunicator, CountersAndDescribe_withoutMemory_returnNothing) {
  const auto device = std::make_shared<ExhaustedDevice>();
  CommunicatorOptions options = patient();
  options.device = device;
  on_ranks(1, options, [&](Communicator& communicator) {
    device->exhausted = true;
    EXPECT_NO_THROW(EXPECT_TRUE(communicator.counters().empty()));
    EXPECT_NO_THROW(EXPECT_TRUE(communicator.describe().empty()));
    device->exhausted = false;
    EXPECT_FALSE(communicator.counters().empty());
    EXPECT_FALSE(communicator.describe().empty());
    finish(communicator.barrier());
  });
}

}  // namespace
}  // namespace tutti
