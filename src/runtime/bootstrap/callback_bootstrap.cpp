#include "runtime/bootstrap/callback_bootstrap.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.hpp"
#include "runtime/bootstrap/store/store_client.hpp"

namespace tutti::runtime {
namespace {

class CallbackBootstrap : public Bootstrap {
 public:
  CallbackBootstrap(Rank rank, std::uint32_t size, AllgatherCallback callback,
                    std::string description)
      : rank_(rank),
        size_(size),
        callback_(std::move(callback)),
        description_(std::move(description)) {}

  Rank rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  std::string description() const override { return description_; }

  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    if (!failed_.ok()) return failed_;
    // Set in advance, because only a lack of memory makes `exchange` throw.
    failed_ = Status(Code::resource_exhausted, "out of memory");
    auto result = exchange(mine, timeout);
    failed_ = result.status();
    return result;
  }

 private:
  Result<std::vector<Bytes>> exchange(std::span<const std::byte> mine, Nanoseconds timeout) {
    if (mine.size() > kMaxContributionBytes) {
      return failure(Code::invalid_argument,
                     "rank {} contributes {} bytes to the bootstrap: contribute at most {} bytes",
                     index(rank_), mine.size(), kMaxContributionBytes);
    }
    const Deadline deadline = deadline_after(timeout);
    const std::uint64_t my_length = mine.size();
    std::vector<std::uint64_t> lengths(size_);
    Status status = call(std::as_bytes(std::span(&my_length, 1)),
                         std::as_writable_bytes(std::span(lengths)), deadline);
    if (status.ok()) status = check(lengths);
    if (!status.ok()) return status;
    const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
    Bytes padded(mine.begin(), mine.end());
    padded.resize(longest);
    Bytes all(longest * size_);
    if (longest > 0) status = call(padded, all, deadline);
    if (!status.ok()) return status;
    std::vector<Bytes> result(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * longest);
      result[i].assign(begin, begin + static_cast<std::ptrdiff_t>(lengths[i]));
    }
    return result;
  }

  Status call(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) {
    const Nanoseconds left = deadline - SteadyClock::now();
    try {
      return callback_(mine, all, std::max(left, Nanoseconds(0)));
    } catch (const std::bad_alloc&) {
      throw;  // the creation of the communicator reports this as lack of memory
    } catch (const std::exception& exception) {
      return failure(Code::invalid_argument,
                     "the allgather callback of rank {} threw an exception: {}", index(rank_),
                     exception.what());
    } catch (...) {
      return failure(
          Code::invalid_argument,
          "the allgather callback of rank {} threw an exception not derived from std::exception",
          index(rank_));
    }
  }

  Status check(std::span<const std::uint64_t> lengths) const {
    std::uint64_t longest = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      longest = std::max(longest, lengths[i]);
      if (lengths[i] <= kMaxContributionBytes) continue;
      return failure(
          Code::invalid_argument,
          "the allgather callback returned for rank {} a size of {} bytes, above the limit of {}: "
          "make the callback return the bytes of all ranks, unchanged and in rank order",
          i, lengths[i], kMaxContributionBytes);
    }
    if (longest * size_ <= kMaxExchangeBytes) return {};
    return failure(Code::resource_exhausted,
                   "a bootstrap exchange of {} bytes ({} ranks with up to {} bytes each) exceeds "
                   "the limit of {} bytes: contribute at most {} bytes per rank",
                   longest * size_, size_, longest, kMaxExchangeBytes, kMaxExchangeBytes / size_);
  }

  Rank rank_;
  std::uint32_t size_;
  AllgatherCallback callback_;
  std::string description_;
  Status failed_;  ///< the first failure; a later exchange would be out of step with the peers
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(Rank rank, std::uint32_t size,
                                                           AllgatherCallback callback,
                                                           std::string description) {
  Status status = check_place(rank, size);
  if (!status.ok()) return status;
  if (!callback) {
    return failure(Code::invalid_argument,
                   "the allgather callback of rank {} is empty: pass a function that can be called",
                   index(rank));
  }
  return std::unique_ptr<Bootstrap>(
      std::make_unique<CallbackBootstrap>(rank, size, std::move(callback), std::move(description)));
}

}  // namespace tutti::runtime
