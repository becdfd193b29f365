// One call of libtutti with all its arguments, which can be started later.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reduction.hpp"

namespace tutti::torch_backend {

/// Contiguous memory of a tensor.
struct Bytes {
  void* data = nullptr;
  std::size_t count = 0;
};

/// Sizes and offsets of the blocks of one buffer, in bytes.
struct Blocks {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> offsets;

  bool empty() const { return sizes.empty(); }
};

/// The layout of consecutive blocks that have the given sizes and no gaps.
Blocks blocks_of(std::vector<std::uint64_t> sizes);

/// The options for the start of collectives; the start of a message ignores them.
struct StartOptions {
  bool will_wait = false;  ///< true: the thread waits for the call right after the start
  std::int32_t priority = TUTTI_PRIORITY_NORMAL;
};

class Call {
 public:
  enum class Kind { collective, send, receive };

  static Call collective(std::uint32_t which, Bytes send, Bytes receive, int root = 0);
  static Call send(Bytes message, std::uint32_t to, std::uint64_t tag);
  static Call receive(Bytes message, std::uint32_t from, std::uint64_t tag);

  Call& reduce(const Reduction& reduction);
  Call& receive_blocks(Blocks blocks);
  Call& send_blocks(Blocks blocks);

  bool is_message() const { return kind_ != Kind::collective; }
  bool is_receive() const { return kind_ == Kind::receive; }

  /// Starts the calls together and adds their requests, which the caller frees, to `requests`. If
  /// one of the calls is a message, it must be the only call; `terms` do not apply to messages.
  /// Throws only before it starts a call.
  static tutti_status_t start(tutti_comm_t* comm, const std::vector<Call>& calls,
                              const StartOptions& terms, std::vector<tutti_request_t*>& requests);
  /// Carries out a collective of a group of one rank.
  void run_alone() const;

 private:
  /// The arguments of a collective in libtutti's C structures. The structures contain pointers to
  /// each other and to members of the Call.
  struct Description {
    Description(const Call& call, const StartOptions& terms);
    Description(const Description&) = delete;
    Description& operator=(const Description&) = delete;

    tutti_call_t call;
    tutti_call_options_t options = TUTTI_CALL_OPTIONS_INIT;
    tutti_reduction_t reduction = TUTTI_REDUCTION_INIT(0, 0);
  };

  tutti_status_t start_one(tutti_comm_t* comm, const StartOptions& terms,
                           tutti_request_t** request) const;

  Kind kind_ = Kind::collective;
  std::uint32_t collective_ = 0;
  std::uint32_t root_ = 0;  ///< root of a collective, or peer of a message
  std::uint64_t tag_ = 0;
  Bytes send_;
  Bytes receive_;
  std::optional<Reduction> reduction_;
  Blocks receive_blocks_;
  Blocks send_blocks_;
};

}  // namespace tutti::torch_backend
