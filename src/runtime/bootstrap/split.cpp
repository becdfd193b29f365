#include "runtime/bootstrap/split.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "runtime/bootstrap/byte_fields.hpp"

namespace tutti::runtime {

namespace {

constexpr std::size_t kHeaderBytes = 16;  // header fields: color flag (0 or 1), color, key

Bytes encode(const SplitChoice& choice) {
  Bytes bytes;
  const auto key = static_cast<std::uint64_t>(choice.key);
  put_u32(bytes, choice.color ? 1 : 0);
  put_u32(bytes, choice.color.value_or(0));
  put_u32(bytes, static_cast<std::uint32_t>(key));
  put_u32(bytes, static_cast<std::uint32_t>(key >> 32));
  for (const Rank rank : choice.named) put_u32(bytes, index(rank));
  return bytes;
}

std::optional<SplitChoice> decode(const Bytes& bytes) {
  if (bytes.size() < kHeaderBytes || bytes.size() % 4 != 0) return std::nullopt;
  SplitChoice choice;
  if (get_u32(bytes, 0) != 0) choice.color = get_u32(bytes, 4);
  choice.key =
      static_cast<std::int64_t>(get_u32(bytes, 8) | std::uint64_t{get_u32(bytes, 12)} << 32);
  for (std::size_t at = kHeaderBytes; at < bytes.size(); at += 4)
    choice.named.push_back(rank_of(get_u32(bytes, at)));
  return choice;
}

}  // namespace

Result<SplitChoice> SplitChoice::of_named(std::vector<Rank> named, Rank me, std::uint32_t size) {
  if (named.empty())
    return failure(Code::invalid_argument, "the list of ranks is empty: name at least one rank");
  std::vector<Rank> sorted = named;
  std::sort(sorted.begin(), sorted.end());
  if (index(sorted.back()) >= size)
    return failure(Code::invalid_argument,
                   "rank {} is not one of the {} ranks: name ranks below {}", index(sorted.back()),
                   size, size);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return failure(Code::invalid_argument, "rank {} is named twice: name each rank once",
                   index(*twice));
  SplitChoice choice;
  const auto own = std::find(named.begin(), named.end(), me);
  if (own == named.end()) return choice;
  // The first rank of the list serves as color: the lists of different communicators have no rank
  // in common, so they differ in their first rank.
  choice.color = index(named.front());
  choice.key = own - named.begin();
  choice.named = std::move(named);
  return choice;
}

Result<std::vector<Rank>> agree_on_split(Bootstrap& whole, const SplitChoice& mine,
                                         Nanoseconds timeout) {
  const auto all = whole.allgather(encode(mine), timeout);
  if (!all) return all.status();
  std::vector<std::pair<std::int64_t, Rank>> members;
  for (std::uint32_t r = 0; mine.color && r < whole.size(); ++r) {
    const auto choice = decode((*all)[r]);
    const bool expected = std::count(mine.named.begin(), mine.named.end(), rank_of(r)) > 0;
    const bool joins = choice && choice->color == mine.color;
    if (!choice || (expected && !joins) || (joins && choice->named != mine.named)) {
      return failure_of({rank_of(r), whole.rank()}, Code::invalid_argument,
                        "rank {} did not pass the same list of ranks as rank {}: pass the same "
                        "list at every rank in the list",
                        r, index(whole.rank()));
    }
    if (joins) members.emplace_back(choice->key, rank_of(r));
  }
  std::sort(members.begin(), members.end());
  std::vector<Rank> ranks;
  for (const auto& [key, rank] : members) ranks.push_back(rank);
  return ranks;
}

}  // namespace tutti::runtime
