#include "live_groups.hpp"

#include <chrono>
#include <iterator>
#include <thread>

#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

/// A process that exits serves the peers of all its groups, but at most this long.
constexpr std::chrono::milliseconds kExitPatience{1000};

}  // namespace

LiveGroups& LiveGroups::instance() {
  static const AtExit at_exit;
  return of_process<LiveGroups>();
}

LiveGroups::AtExit::~AtExit() {
  const auto end = [] {
    try {
      instance().shut_down();
    } catch (...) {
      log_exception("the end of the process could not end all groups");
    }
  };
  try {
    // A new thread ends the groups, because the thread-local objects of the exiting thread no
    // longer exist.
    std::thread(end).join();
  } catch (...) {
    log_exception("a thread that ends the groups could not be created");
  }
}

void LiveGroups::shut_down() {
  std::multimap<std::string, std::weak_ptr<Submissions>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(groups_);
  }
  const auto deadline = Clock::now() + kExitPatience;
  for (const auto& [name, weak] : ending) {
    const auto left = std::chrono::nanoseconds(nanoseconds_until(deadline));
    if (const auto group = weak.lock())
      group->shut_down(std::chrono::duration_cast<std::chrono::milliseconds>(left));
  }
}

void LiveGroups::add(const std::string& name, const std::shared_ptr<Submissions>& group) {
  const std::lock_guard lock(mutex_);
  for (auto entry = groups_.begin(); entry != groups_.end();)
    entry = entry->second.expired() ? groups_.erase(entry) : std::next(entry);
  groups_.emplace(name, group);
}

std::shared_ptr<Submissions> LiveGroups::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = groups_.equal_range(name);
  return begin == end ? nullptr : std::prev(end)->second.lock();
}

}  // namespace tutti::torch_backend
