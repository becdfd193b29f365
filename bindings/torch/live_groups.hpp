// Lists the groups of this process by name, and ends them when the process exits.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "of_process.hpp"
#include "submissions.hpp"

namespace tutti::torch_backend {

class LiveGroups {
 public:
  /// The groups of this process; a child of fork() has a list of its own.
  static LiveGroups& instance();

  /// Shuts all groups down and serves their peers for at most a second. The adapter calls this
  /// function before the interpreter ends, because callbacks need the interpreter.
  void shut_down();
  void add(const std::string& name, const std::shared_ptr<Submissions>& group);
  /// The newest group of this name; null if it has ended.
  std::shared_ptr<Submissions> find(const std::string& name);

 private:
  /// Ends the groups when the process exits, because torch may free a backend too late or never.
  /// The adapter is loaded after libtutti, so that the destructor of this object runs before those
  /// of libtutti's static objects.
  struct AtExit {
    ~AtExit();
  };
  friend LiveGroups& of_process<LiveGroups>();

  LiveGroups() = default;

  std::mutex mutex_;
  std::multimap<std::string, std::weak_ptr<Submissions>> groups_;
};

}  // namespace tutti::torch_backend
