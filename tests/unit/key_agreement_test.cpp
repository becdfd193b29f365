// Tests the agreement on the secret of a communicator: every rank gets the secret, a wrong key or a
// changed byte causes an error, and no exchange contains the secret.
#include "runtime/keys/key_agreement.hpp"
#include "runtime/communicator/create.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/hex.hpp"
#include "communicator_ranks.hpp"
#include "device/forwarding_endpoint.hpp"
#include "device/ip/ip_device.hpp"
#include "runtime/keys/job_key.hpp"
#include "tutti/communicator.hpp"

namespace tutti::runtime {
namespace {

using crypto::Secret;
using Contributions = std::vector<Bytes>;
using Change = std::function<void(Contributions&)>;

void nothing(Contributions&) {}

Secret key_of(char digit) {
  Secret key;
  EXPECT_TRUE(from_hex(std::string(2 * Secret::kBytes, digit), key.writable()));
  return key;
}

const Bytes kOptions(5, std::byte{3});
const Bytes kAddress(9, std::byte{4});

/// The key agreement of several ranks. A test can change the bytes of its two exchanges.
class Agreement {
 public:
  /// Begins the agreement at each rank; rank r has the job key `keys[r]`, or none if that is null.
  explicit Agreement(const std::vector<const Secret*>& keys) {
    for (std::uint32_t r = 0; r < keys.size(); ++r) {
      auto begun =
          KeyAgreement::begin(rank_of(r), static_cast<std::uint32_t>(keys.size()), keys[r]);
      EXPECT_TRUE(begun.ok()) << begun.status().to_string();
      ranks.push_back(std::move(*begun));
    }
  }

  Contributions first() {
    Contributions all;
    for (KeyAgreement& one : ranks) all.push_back(one.first(kOptions).value());
    return all;
  }

  /// Carries out both exchanges and returns each rank's secret. `change_first` and `change_second`
  /// may change the bytes that rank `victim` receives in the first and in the second exchange.
  std::vector<Result<Secret>> run(std::size_t victim = 0, const Change& change_first = nothing,
                                  const Change& change_second = nothing) {
    const Contributions all = first();
    std::vector<Status> ends;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      Contributions seen = all;
      if (r == victim) change_first(seen);
      ends.push_back(ranks[r].take_first(seen).status());
    }
    Contributions addresses(ranks.size());
    Status drawn = ends[0];
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      auto own = ends[r].ok() ? ranks[r].second(kAddress) : Result<Bytes>(ends[r]);
      if (own) addresses[r] = *own;
      if (r == 0) drawn = own.status();
    }
    std::vector<Result<Secret>> secrets;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (!ends[r].ok() || !drawn.ok()) {
        secrets.emplace_back(ends[r].ok() ? drawn : ends[r]);
        continue;
      }
      Contributions seen = addresses;
      if (r == victim) change_second(seen);
      secrets.push_back(ranks[r].take_second(seen));
      if (secrets.back()) {
        EXPECT_EQ(seen[0], kAddress);
      }
    }
    return secrets;
  }

  std::vector<KeyAgreement> ranks;
};

void expect_one_secret(const std::vector<Result<Secret>>& secrets) {
  for (const auto& secret : secrets) {
    ASSERT_TRUE(secret.ok()) << secret.status().to_string();
    EXPECT_TRUE(crypto::equal(secret->bytes(), secrets[0]->bytes()));
    EXPECT_FALSE(crypto::equal(secret->bytes(), Secret().bytes()));
  }
}

TEST(KeyAgreement, EveryRankGetsTheSameSecret_whichIsNewEachTime) {
  const Secret key = key_of('5');
  for (const Secret* job_key : {static_cast<const Secret*>(nullptr), &key}) {
    for (const std::size_t size : {1u, 2u, 7u}) {
      const auto one = Agreement(std::vector(size, job_key)).run();
      const auto other = Agreement(std::vector(size, job_key)).run();
      expect_one_secret(one);
      expect_one_secret(other);
      EXPECT_FALSE(crypto::equal(one[0]->bytes(), other[0]->bytes()));
    }
  }
}

TEST(KeyAgreement, PeerOptions_sentBehindTheKeyOffers_areReturned) {
  Agreement agreement({nullptr, nullptr});
  const Contributions all = agreement.first();
  const auto options = agreement.ranks[1].take_first(all);
  ASSERT_TRUE(options.ok());
  for (const auto& one : *options) EXPECT_EQ(Bytes(one.begin(), one.end()), kOptions);
}

TEST(KeyAgreement, PublicBytes_areEqualAtAllRanks_andDifferByLabelAndExchange) {
  const auto bytes_at = [](const KeyAgreement& rank, std::string_view label) {
    Bytes bytes(16);
    EXPECT_TRUE(rank.public_bytes(label, bytes).ok());
    return bytes;
  };
  Agreement one({nullptr, nullptr});
  Agreement other({nullptr, nullptr});
  one.run();
  other.run();
  EXPECT_EQ(bytes_at(one.ranks[0], "a"), bytes_at(one.ranks[1], "a"));
  EXPECT_NE(bytes_at(one.ranks[0], "a"), bytes_at(one.ranks[0], "b"));
  EXPECT_NE(bytes_at(one.ranks[0], "a"), bytes_at(other.ranks[0], "a"));
}

TEST(KeyAgreement, RankWithAnotherJobKey_isNamedInTheError) {
  const Secret key = key_of('5');
  const Secret wrong = key_of('6');
  const auto ends = Agreement({&key, &key, &wrong}).run();
  for (const std::size_t r : {0u, 1u}) {
    EXPECT_EQ(
        ends[r].status().message(),
        "the job key of rank 2 differs from that of rank " + std::to_string(r) +
            ", or the bootstrap changed the bytes of rank 2: give all ranks the same key file "
            "(TUTTI_JOB_KEY_FILE) or the same job_key, or use a bootstrap that delivers them "
            "unchanged");
  }
  EXPECT_EQ(ends[2].status().message().find("the job key of rank 0 differs from that of rank 2"),
            0u);
}

TEST(KeyAgreement, RankWithoutAJobKey_isNamedInTheError) {
  const Secret key = key_of('5');
  for (const auto& end : Agreement({&key, nullptr}).run()) {
    EXPECT_EQ(end.status().message().find("rank 0 has a job key but rank 1 has none"), 0u)
        << end.status().message();
  }
}

TEST(KeyAgreement, ReplacedPublicKey_inAJobWithAKey_isRefusedAsAWrongKey) {
  const Secret key = key_of('5');
  Agreement stranger({nullptr, nullptr, nullptr});
  const auto put_its_key = [&](Contributions& seen) {
    const Bytes other = stranger.first()[2];
    std::copy_n(other.begin() + 20, 32, seen[2].begin() + 20);
  };
  const auto keyed = Agreement({&key, &key, &key}).run(0, put_its_key);
  EXPECT_EQ(keyed[0].status().message().find("the job key of rank 2 differs"), 0u);
}

TEST(KeyAgreement, ChangedOffer_preventsTheOpeningOfTheSecret) {
  // Rank 1 receives a public key that differs from the one that rank 2 sent.
  Agreement stranger({nullptr, nullptr, nullptr});
  const auto ends = Agreement({nullptr, nullptr, nullptr}).run(1, [&](Contributions& seen) {
    seen[2] = stranger.first()[2];
  });
  EXPECT_TRUE(ends[0].ok());
  EXPECT_TRUE(ends[2].ok());
  EXPECT_EQ(ends[1].status().message().find(
                "the secret that rank 0 sealed for rank 1 cannot be unsealed"),
            0u)
      << ends[1].status().message();
}

TEST(KeyAgreement, ChangedPeerOptions_preventTheOpeningOfTheSecret) {
  const auto ends = Agreement({nullptr, nullptr}).run(1, [](Contributions& seen) {
    seen[0].back() ^= std::byte{1};
  });
  EXPECT_NE(ends[1].status().message().find("cannot be unsealed"), std::string::npos);
}

TEST(KeyAgreement, PeerOptionsChangedForAllRanks_inAJobWithAKey_areRefusedByAllRanks) {
  const Secret key = key_of('5');
  Agreement agreement({&key, &key, &key});
  Contributions all = agreement.first();
  all[1].back() ^= std::byte{1};
  for (const std::size_t r : {0u, 2u}) {
    EXPECT_EQ(agreement.ranks[r].take_first(all).status().message().find(
                  "the job key of rank 1 differs from that of rank " + std::to_string(r) +
                  ", or the bootstrap changed the bytes of rank 1"),
              0u);
  }
  EXPECT_EQ(agreement.ranks[1].take_first(all).status().message().find(
                "the bootstrap does not return the bytes that rank 1 contributed"),
            0u);
}

TEST(KeyAgreement, OwnContributionChangedOnTheWay_isRefusedInBothExchanges) {
  const Change change = [](Contributions& seen) { seen[1].back() ^= std::byte{1}; };
  for (const auto& ends : {Agreement({nullptr, nullptr}).run(1, change),
                           Agreement({nullptr, nullptr}).run(1, nothing, change)}) {
    EXPECT_EQ(ends[1].status().message().find(
                  "the bootstrap does not return the bytes that rank 1 contributed"),
              0u)
        << ends[1].status().message();
  }
}

TEST(KeyAgreement, View_isEqualAtAllRanks_untilOneReceivesAnotherAddress) {
  Agreement same({nullptr, nullptr, nullptr});
  expect_one_secret(same.run());
  EXPECT_EQ(same.ranks[0].view(), same.ranks[1].view());
  EXPECT_EQ(same.ranks[0].view(), same.ranks[2].view());
  EXPECT_NE(same.ranks[0].view(), ExchangeView{});
  Agreement apart({nullptr, nullptr, nullptr});
  expect_one_secret(
      apart.run(0, nothing, [](Contributions& seen) { seen[2].back() ^= std::byte{1}; }));
  EXPECT_EQ(apart.ranks[1].view(), apart.ranks[2].view());
  EXPECT_NE(apart.ranks[0].view(), apart.ranks[1].view());
}

TEST(KeyAgreement, DamagedOffer_isRefused_andTheRankIsNamedInTheError) {
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](Contributions& all) { all[1].resize(KeyOffer::kBytes - 1); },
       "rank 1: the first message does not begin with a key offer"},
      {[](Contributions& all) { all[1].clear(); },
       "rank 1: the first message does not begin with a key offer"},
      {[](Contributions& all) { all[1][0] = std::byte{'T'}; },
       "rank 1: the first message does not begin with a key offer"},
      {[](Contributions& all) { all[1][16] = std::byte{2}; }, "rank 1: the key offer is damaged"},
      {[](Contributions& all) { all[1][60] = std::byte{1}; }, "rank 1: the key offer is damaged"},
      {[](Contributions& all) { all[1][8] = std::byte{0}; },
       "the bootstrap returned the bytes of rank 0 of 2 in the place of rank 1 of 2: give every "
       "process a rank of its own"},
      {[](Contributions& all) { all[1][12] = std::byte{3}; },
       "the bootstrap returned the bytes of rank 1 of 3 in the place of rank 1 of 2: give every "
       "process a rank of its own"},
      {[](Contributions& all) { all.pop_back(); },
       "the bootstrap does not return the bytes that rank 0 contributed"},
      {[](Contributions& all) { all[0][30] ^= std::byte{1}; },
       "the bootstrap does not return the bytes that rank 0 contributed"}};
  for (const auto& [change, error] : changes) {
    const auto ends = Agreement({nullptr, nullptr}).run(0, change);
    EXPECT_EQ(ends[0].status().code(), Code::invalid_argument);
    EXPECT_EQ(ends[0].status().message().find(error), 0u) << ends[0].status().message();
  }
}

TEST(KeyAgreement, ZeroPublicKey_isRefusedByRank0_andItsRankIsNamedInTheError) {
  const auto ends = Agreement({nullptr, nullptr}).run(0, [](Contributions& seen) {
    std::fill_n(seen[1].begin() + 20, 32, std::byte{0});
  });
  EXPECT_EQ(ends[0].status().message().find("rank 1: the public key is of low order"), 0u)
      << ends[0].status().message();
}

TEST(KeyAgreement, ChangedOrTruncatedSealedSecret_isRefused_withItsRankInTheError) {
  const std::size_t sealed_bytes = 2 * 48;
  for (std::size_t at = 48; at < sealed_bytes; ++at) {
    const auto ends =
        Agreement({nullptr, nullptr, nullptr}).run(2, nothing, [&](Contributions& all) {
          all[0][at] ^= std::byte{1};
        });
    EXPECT_TRUE(ends[1].ok());
    EXPECT_NE(ends[2].status().message().find("rank 0 sealed for rank 2 cannot be unsealed"),
              std::string::npos)
        << at;
  }
  const auto cut = Agreement({nullptr, nullptr, nullptr}).run(2, nothing, [&](Contributions& all) {
    all[0].resize(sealed_bytes - 1);
  });
  EXPECT_EQ(cut[2].status().message().find(
                "rank 0 sent 95 bytes, fewer than the 96 bytes of its sealed secrets"),
            0u)
      << cut[2].status().message();
}

TEST(KeyAgreement, SealedSecretsOfTwoRanks_swappedOnTheWay_doNotOpen) {
  const auto ends = Agreement({nullptr, nullptr, nullptr}).run(2, nothing, [](Contributions& all) {
    std::rotate(all[0].begin(), all[0].begin() + 48, all[0].begin() + 96);
  });
  EXPECT_NE(ends[2].status().message().find("rank 0 sealed for rank 2 cannot be unsealed"),
            std::string::npos)
      << ends[2].status().message();
}

// ---- whole creations ----------------------------------------------------------------------------

/// All bytes that an observer of the exchanges has seen.
class Record {
 public:
  void add(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  Bytes bytes_;
};

class PassingBootstrap : public Bootstrap {
 public:
  explicit PassingBootstrap(std::unique_ptr<Bootstrap> inner) : inner_(std::move(inner)) {}
  Rank rank() const override { return inner_->rank(); }
  std::uint32_t size() const override { return inner_->size(); }
  std::string description() const override { return inner_->description(); }

 protected:
  std::unique_ptr<Bootstrap> inner_;
};

class RecordedBootstrap final : public PassingBootstrap {
 public:
  RecordedBootstrap(std::unique_ptr<Bootstrap> inner, Record& record)
      : PassingBootstrap(std::move(inner)), record_(record) {}
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    record_.add(mine);
    ++exchanges;
    return inner_->allgather(mine, timeout);
  }

  std::uint32_t exchanges = 0;

 private:
  Record& record_;
};

/// Changes the bytes that a rank receives in one of the two exchanges.
class ChangingBootstrap final : public PassingBootstrap {
 public:
  ChangingBootstrap(std::unique_ptr<Bootstrap> inner, std::uint32_t exchange, Change change)
      : PassingBootstrap(std::move(inner)), exchange_(exchange), change_(std::move(change)) {}
  Result<Contributions> allgather(std::span<const std::byte> mine, Nanoseconds timeout) override {
    auto all = inner_->allgather(mine, timeout);
    if (all && exchange_-- == 0) change_(*all);
    return all;
  }

 private:
  std::uint32_t exchange_;  ///< number of exchanges that remain before the changed one
  Change change_;
};

/// An `ip` device that records the secret given to its endpoints.
class SecretKeepingDevice final : public device::Device {
 public:
  std::string name() const override { return ip_.name(); }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    auto inner = ip_.open(options);
    if (!inner) return inner.status();
    return std::unique_ptr<device::Endpoint>(
        std::make_unique<KeepingEndpoint>(std::move(*inner), secret));
  }

  Bytes secret;

 private:
  class KeepingEndpoint final : public device::ForwardingEndpoint {
   public:
    KeepingEndpoint(std::unique_ptr<device::Endpoint> inner, Bytes& kept)
        : ForwardingEndpoint(std::move(inner)), secret_(kept) {}
    Status use_secret(std::span<const std::byte> given) override {
      secret_.assign(given.begin(), given.end());
      return ForwardingEndpoint::use_secret(given);
    }

   private:
    Bytes& secret_;
  };

  device::ip::IpDevice ip_{[] {
    device::ip::IpOptions options;
    options.local_only = true;
    return options;
  }()};
};

std::string base64_of(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const std::uint32_t word = std::to_integer<std::uint32_t>(bytes[i]) << 16 |
                               std::to_integer<std::uint32_t>(bytes[i + 1]) << 8 |
                               std::to_integer<std::uint32_t>(bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[word >> shift & 63];
  }
  return text;
}

/// Whether `haystack` contains the key raw, in hexadecimal of either case, or in base64 at any of
/// its three alignments.
bool contains(const Bytes& haystack, std::span<const std::byte> key) {
  const std::string_view text(reinterpret_cast<const char*>(haystack.data()), haystack.size());
  const std::string hex = to_hex(key);
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::vector<std::string> forms{
      {reinterpret_cast<const char*>(key.data()), key.size()}, hex, upper};
  for (std::size_t skipped = 0; skipped < 3; ++skipped) {
    forms.push_back(base64_of(key.subspan(skipped)));
  }
  return std::any_of(forms.begin(), forms.end(), [&](const std::string& form) {
    return text.find(form) != std::string_view::npos;
  });
}

/// Creates a communicator of three ranks and a duplicate over recorded bootstraps, and looks for
/// secrets in the record.
void expect_no_secret_in_exchanges(const std::optional<JobKey>& job_key) {
  constexpr std::uint32_t kRanks = 3;
  Record record;
  auto bootstraps = make_local_bootstraps(kRanks);
  std::vector<std::shared_ptr<SecretKeepingDevice>> devices;
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < kRanks; ++r)
    devices.push_back(std::make_shared<SecretKeepingDevice>());
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      RecordedBootstrap recorded(std::move(bootstraps[r]), record);
      CommunicatorOptions options = test::patient();
      options.device = devices[r];
      options.job_key = job_key;
      auto communicator = runtime::create_communicator(recorded, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      EXPECT_EQ(recorded.exchanges, 2u);
      const Bytes parent = devices[r]->secret;
      auto duplicate = runtime::create_communicator(recorded, options, &*communicator);
      ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
      EXPECT_NE(devices[r]->secret, parent);
      test::finish(duplicate->barrier());
      devices[r]->secret.insert(devices[r]->secret.end(), parent.begin(), parent.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Bytes secrets = devices[0]->secret;
  ASSERT_EQ(secrets.size(), 2 * Secret::kBytes);
  EXPECT_EQ(devices[1]->secret, secrets);
  EXPECT_EQ(devices[2]->secret, secrets);
  ASSERT_GT(record.bytes().size(), 1000u);
  for (const std::size_t at : {std::size_t{0}, Secret::kBytes}) {
    const std::span<const std::byte> secret = std::span(secrets).subspan(at, Secret::kBytes);
    EXPECT_FALSE(contains(record.bytes(), secret));
    Bytes derived(32);
    for (const char* label : {"tutti datagram tags 2", "tutti child key 1"}) {
      for (const std::uint64_t context : {0u, 1u}) {
        ASSERT_TRUE(crypto::derive(secret, label, context, derived).ok());
        EXPECT_FALSE(contains(record.bytes(), derived)) << label;
      }
    }
  }
  if (job_key) {
    EXPECT_FALSE(contains(record.bytes(), job_key->bytes));
  }
}

TEST(KeyAgreement, CapturedExchanges_ofACommunicatorCreation_containNoSecret) {
  expect_no_secret_in_exchanges({});
  JobKey key;
  std::fill(key.bytes.begin(), key.bytes.end(), std::byte{0xa7});
  expect_no_secret_in_exchanges(key);
}

TEST(KeyAgreement, SearchInCapturedBytes_findsAKeyInRawHexAndBase64Form) {
  const Bytes key = test::pattern(32, 5);
  const auto hides = [&](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return contains(Bytes(bytes.begin(), bytes.end()), key);
  };
  EXPECT_TRUE(hides("..." + std::string(reinterpret_cast<const char*>(key.data()), key.size())));
  EXPECT_TRUE(hides("..." + to_hex(key) + "..."));
  Bytes behind_one_byte = key;
  behind_one_byte.insert(behind_one_byte.begin(), std::byte{1});
  behind_one_byte.resize(36);
  EXPECT_TRUE(hides(base64_of(behind_one_byte)));
  EXPECT_FALSE(hides(std::string(1000, 'a')));
}

/// The errors of three ranks with a job key that create a communicator over `ip`. In `exchange`,
/// each rank in `victims` receives changed bytes.
std::vector<Status> create_over_changed_bytes(std::uint32_t exchange, const Change& change,
                                              const std::vector<std::uint32_t>& victims,
                                              CommunicatorOptions options) {
  auto bootstraps = make_local_bootstraps(3);
  std::vector<Status> ends(bootstraps.size());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ends.size(); ++r) {
    const bool victim = std::find(victims.begin(), victims.end(), r) != victims.end();
    threads.emplace_back([&, r, victim] {
      ChangingBootstrap bootstrap(std::move(bootstraps[r]), exchange, victim ? change : nothing);
      CommunicatorOptions own = options;
      own.device = std::make_shared<SecretKeepingDevice>();
      own.job_key.emplace();
      ends[r] = runtime::create_communicator(bootstrap, own).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(KeyAgreement, AddressChangedAtOneRank_failsTheCreationOnAllRanks) {
  constexpr std::size_t kWindowAt = 8;
  const auto lower_the_window = [](Contributions& seen) {
    std::fill_n(seen[1].begin() + kWindowAt, 8, std::byte{0});
    seen[1][kWindowAt + 1] = std::byte{0x10};
  };
  for (const bool authenticate : {true, false}) {
    CommunicatorOptions options = test::patient();
    options.authenticate = authenticate;
    const auto ends = create_over_changed_bytes(1, lower_the_window, {0}, options);
    // A rank that fails first ends the check of the others, whose errors then refer to its error.
    std::uint32_t named = 0;
    for (std::uint32_t r = 0; r < ends.size(); ++r) {
      const std::string other = "the bootstrap gave rank " + std::to_string(r == 0 ? 1 : 0);
      const bool names = ends[r].message().starts_with(other);
      EXPECT_EQ(ends[r].code(), names ? Code::invalid_argument : Code::peer_failed)
          << ends[r].message();
      if (names) ++named;
    }
    EXPECT_GE(named, 1u);
  }
}

TEST(KeyAgreement, OptionsChangedForAllRanks_failTheCreationOnAllRanks) {
  // The peer options end with require_multicast, a number of 64 bits.
  const auto clear_require_multicast = [](Contributions& seen) {
    for (Bytes& one : seen) {
      EXPECT_EQ(one[one.size() - 8], std::byte{1});
      one[one.size() - 8] = std::byte{0};
    }
  };
  CommunicatorOptions options = test::patient();
  options.require_multicast = true;
  const auto ends = create_over_changed_bytes(0, clear_require_multicast, {0, 1, 2}, options);
  for (const std::uint32_t r : {0u, 1u, 2u}) {
    const std::string other = std::to_string(r == 0 ? 1 : 0);
    EXPECT_TRUE(ends[r].message().starts_with(
        "the job key of rank " + other + " differs from that of rank " + std::to_string(r) +
        ", or the bootstrap changed the bytes of rank " + other))
        << ends[r].message();
  }
}

TEST(KeyAgreement, WrongJobKey_failsTheCreation_andTheRankIsNamedInTheError) {
  auto bootstraps = make_local_bootstraps(2);
  const auto creation = [&](std::uint32_t r) {
    CommunicatorOptions options = test::patient();
    options.job_key.emplace().bytes[0] = static_cast<std::byte>(r);
    return runtime::create_communicator(*bootstraps[r], options).status().message();
  };
  std::string of_rank_1;
  std::thread other([&] { of_rank_1 = creation(1); });
  EXPECT_EQ(creation(0).find("the job key of rank 1 differs from that of rank 0"), 0u);
  other.join();
  EXPECT_EQ(of_rank_1.find("the job key of rank 0 differs from that of rank 1"), 0u);
}

}  // namespace
}  // namespace tutti::runtime
