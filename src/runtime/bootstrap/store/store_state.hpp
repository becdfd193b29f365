// The decisions of a bootstrap store, without its sockets: which ranks may join, when an exchange
// is complete, and which error each rank gets if it cannot complete.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bootstrap/store/socket.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"

namespace tutti::runtime {

/// The state of one job. First every rank says hello and waits for the others; then exchanges
/// follow one another. A rank whose timeout ends before all have joined fails alone and may join
/// again. Any other failure is final, as is rank 0's timeout, because the store ends with rank 0:
/// every rank that waits or joins later gets the same error.
class Rendezvous {
 public:
  struct Message {
    std::uint32_t rank = 0;
    std::shared_ptr<const Bytes> frame;
    bool ends = false;  ///< true: the rank is no longer a member, so its connection is closed
  };
  enum class Admission { joined, busy, refused };
  struct Verdict {
    Admission admission = Admission::refused;
    Status why;  ///< reason of a refusal
  };

  /// `where` names the store in messages. Rank 0 says hello with `owner_token`, which only the
  /// store's process knows. Without a `size` the first rank to join sets it.
  Rendezvous(std::string where, const JobToken& token, const JobToken& owner_token,
             std::optional<std::uint32_t> size);

  /// Handles the hello of a rank, which from now on waits for the others.
  Verdict hello(const Hello& hello, Deadline now);
  /// Handles the contribution of a rank that has joined. After a failure, because the rank broke
  /// the protocol or the job has failed, the caller sends the failure to the rank and closes the
  /// connection.
  Status contribute(std::uint32_t rank, Gather gather, Deadline now);
  /// Handles the end of the connection of a rank that had joined.
  void leave(std::uint32_t rank);
  bool failed() const { return failure_.has_value(); }
  /// Fails each rank whose deadline has passed, or the job.
  void expire(Deadline now);
  /// The time at which expire() has something to do; Deadline::max() if never.
  Deadline next_deadline() const;
  /// Returns the frames to send since the last call, in order.
  std::vector<Message> take_messages();

 private:
  enum class Presence : std::uint8_t { absent, present, gave_up, left };
  struct Member {
    Presence presence = Presence::absent;
    /// True: waits for the other ranks to join, or for the exchange to complete.
    bool waiting = false;
    Deadline deadline = Deadline::max();
    Nanoseconds timeout{0};
    Bytes contribution;
  };

  Status check(const Hello& hello) const;
  void wait(Member& member, Nanoseconds timeout, Nanoseconds remaining, Deadline now);
  void complete();
  void give_up(std::uint32_t rank);
  Status missing_ranks(Nanoseconds timeout) const;
  void fail(const Status& status);
  void tell_waiting(const std::shared_ptr<const Bytes>& frame);
  std::vector<std::uint32_t> ranks_that_do_not_wait() const;

  std::string where_;
  JobToken token_;
  JobToken owner_token_;
  std::vector<Member> members_;  ///< members by rank; empty until the size is known
  std::uint32_t waiting_ = 0;
  std::size_t contributed_bytes_ = 0;
  bool joined_ = false;
  std::uint32_t exchange_ = 0;
  std::optional<Status> failure_;
  std::vector<Message> messages_;
};

}  // namespace tutti::runtime
