// The decisions of a bootstrap store, without its sockets: which ranks may join, when an exchange
// is complete, and which error each rank gets if an exchange cannot complete.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bootstrap/store/socket.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"

namespace tutti::runtime {

/// The state of one job. First every rank sends its hello and waits for the others; the exchanges
/// follow, one at a time. If the timeout of a rank other than 0 passes before all ranks have
/// joined, only this rank fails, and it may join again. Any other failure is final: every rank that
/// waits or joins later gets the same error.
class Rendezvous {
 public:
  struct Message {
    std::uint32_t rank = 0;
    std::shared_ptr<const Bytes> frame;
    bool ends = false;  ///< true: the connection is closed after this frame
  };
  enum class Admission { joined, busy, refused };
  struct Verdict {
    Admission admission = Admission::refused;
    Status why;  ///< reason why the rank was refused
  };

  /// `where` names the store in error texts. The hello of rank 0 must contain `owner_token`, which
  /// only the store's process knows. If `size` is nothing, the hello of the first rank sets it.
  Rendezvous(std::string where, const JobToken& token, const JobToken& owner_token,
             std::optional<std::uint32_t> size, std::size_t max_exchange_bytes = kMaxExchangeBytes);

  /// Handles the hello of a rank, which then waits until all ranks have joined. If two processes
  /// claim one rank, the job fails, since one of them may be a stranger; the error names the
  /// addresses of both. `from` is the address that sent the hello.
  Verdict hello(const Hello& hello, const std::string& from, Deadline now);
  /// Handles the contribution of a rank that has joined. Fails if the rank broke the protocol or
  /// the job has failed; the caller then sends the failure to the rank and closes the connection.
  Status contribute(std::uint32_t rank, Gather gather, Deadline now);
  /// Handles the end of the connection of a rank that had joined.
  void leave(std::uint32_t rank);
  bool failed() const { return failure_.has_value(); }
  /// True once all ranks have joined; no rank can join after that.
  bool joined() const { return joined_; }
  /// Handles deadlines that have passed. Before all ranks have joined, the deadline of rank 0 ends
  /// the job, and the deadline of another rank ends only this rank's attempt to join. After all
  /// ranks have joined, every deadline ends the job.
  void expire(Deadline now);
  /// The earliest deadline that expire() must handle; Deadline::max() if there is none.
  Deadline next_deadline() const;
  /// Returns the frames that the caller must send now, in order; each frame is returned once.
  std::vector<Message> take_messages();

  /// Ends the job: every rank gets this error. Has no effect if the job has failed before.
  void fail(const Status& status);

 private:
  enum class Presence : std::uint8_t { absent, present, gave_up, left };
  struct Member {
    Presence presence = Presence::absent;
    /// True: the rank has joined, or has contributed to the present exchange, and waits until all
    /// ranks have done the same.
    bool waiting = false;
    Deadline deadline = Deadline::max();
    Nanoseconds timeout{0};
    Bytes contribution;
    std::string address;  ///< address that sent the hello
  };

  Status check(const Hello& hello) const;
  void wait(Member& member, Nanoseconds timeout, Nanoseconds remaining, Deadline now);
  void complete();
  void give_up(std::uint32_t rank);
  Status missing_ranks(Nanoseconds timeout) const;
  void tell_waiting(const std::shared_ptr<const Bytes>& frame);
  std::vector<std::uint32_t> ranks_that_do_not_wait() const;

  std::string where_;
  JobToken token_;
  JobToken owner_token_;
  std::size_t max_exchange_bytes_;
  std::vector<Member> members_;  ///< indexed by rank; empty until the size is known
  std::uint32_t waiting_ = 0;
  std::size_t contributed_bytes_ = 0;
  bool joined_ = false;
  std::uint32_t exchange_ = 0;
  std::optional<Status> failure_;
  std::vector<Message> messages_;
};

}  // namespace tutti::runtime
