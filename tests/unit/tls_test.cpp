// Tests TLS sessions with both ends in memory: equal and different keys, peers without TLS,
// truncated and changed bytes, and servers and clients that do not have the key.
#include "crypto/tls.hpp"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

namespace tutti::crypto {
namespace {

using Bytes = std::vector<std::byte>;
using State = TlsSession::State;
using Role = TlsSession::Role;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Secret key_of(int value) {
  Secret key;
  std::fill(key.writable().begin(), key.writable().end(), static_cast<std::byte>(value));
  return key;
}

TlsSession session_of(Role role, int key = 1) {
  auto session = TlsSession::begin(role, key_of(key));
  EXPECT_TRUE(session.ok()) << session.status().to_string();
  return std::move(*session);
}

/// Reads all decrypted bytes that a session has.
Bytes read_all(TlsSession& session) {
  Bytes all;
  std::byte buffer[1000];
  while (true) {
    const auto got = session.read(buffer);
    if (!got.ok() || *got == 0) return all;
    all.insert(all.end(), buffer, buffer + *got);
  }
}

/// Carries bytes between both sessions, at most `piece` at a time, until neither sends more;
/// returns the bytes that the client sent.
Bytes carry(TlsSession& client, TlsSession& server, std::size_t piece = SIZE_MAX) {
  Bytes recorded;
  const auto feed = [piece](TlsSession& to, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t size = std::min(piece, bytes.size());
      [[maybe_unused]] const Status fed = to.feed(bytes.first(size));
      bytes = bytes.subspan(size);
    }
  };
  while (true) {
    const Bytes up = client.take_output();
    const Bytes down = server.take_output();
    if (up.empty() && down.empty()) return recorded;
    recorded.insert(recorded.end(), up.begin(), up.end());
    feed(server, up);
    feed(client, down);
  }
}

Code code_of(TlsSession& session) { return session.feed(Bytes(1)).code(); }

TEST(Tls, ClientAndServerWithOneKey_readEachOthersData) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    auto client = session_of(Role::client);
    auto server = session_of(Role::server);
    EXPECT_EQ(client.state(), State::handshaking);
    carry(client, server, piece);
    ASSERT_EQ(client.state(), State::open);
    ASSERT_EQ(server.state(), State::open);
    const Bytes request = bytes_of("a request");
    const Bytes answer(40'000, std::byte{'a'});
    EXPECT_TRUE(client.write(request).ok());
    EXPECT_TRUE(server.write(answer).ok());
    const Bytes wire = carry(client, server, piece);
    EXPECT_EQ(read_all(server), request);
    EXPECT_EQ(read_all(client), answer);
    EXPECT_EQ(std::search(wire.begin(), wire.end(), request.begin(), request.end()), wire.end());
  }
}

TEST(Tls, Write_beforeTheHandshake_isRefused) {
  auto client = session_of(Role::client);
  EXPECT_EQ(client.write(bytes_of("too early")).code(), Code::internal);
  EXPECT_EQ(client.state(), State::handshaking);
}

TEST(Tls, DifferentKeys_endBothSessionsWithAKeyError) {
  auto client = session_of(Role::client, 1);
  auto server = session_of(Role::server, 2);
  carry(client, server);
  EXPECT_EQ(code_of(server), Code::invalid_argument);
  EXPECT_EQ(code_of(client), Code::invalid_argument);
  EXPECT_NE(client.feed(Bytes(1)).message().find("another key"), std::string::npos);
}

TEST(Tls, PeerWithoutTls_isRefusedAsUnsupported) {
  for (const std::string_view text :
       {std::string_view("GET / HTTP/1.1"), std::string_view("T"),
        std::string_view("\x16\x02 more"), std::string_view("\x16\x03\x01\x00\x03xyz!", 9)}) {
    for (const Role role : {Role::server, Role::client}) {
      auto session = session_of(role);
      const Status status = session.feed(bytes_of(text));
      EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
      EXPECT_EQ(session.state(), State::failed);
      EXPECT_EQ(session.feed(bytes_of(text)).code(), Code::unsupported);
    }
  }
}

TEST(Tls, MessageWithAHugeLength_isRefusedBeforeMemoryIsReserved) {
  auto server = session_of(Role::server);
  const Bytes huge = bytes_of(std::string_view("\x16\x03\x01\x40\x00\x01\x01\xff\xff", 9));
  EXPECT_EQ(server.feed(huge).code(), Code::unsupported);
}

TEST(Tls, EndlessHandshake_isRefusedAtItsLimit) {
  // The peer sends handshake records without end. The session must refuse them once they exceed
  // kMaxTlsHandshakeBytes.
  auto server = session_of(Role::server);
  Bytes part = bytes_of(std::string_view("\x16\x03\x01\x04\x00\x01\x00\x0f\xff", 9));
  part.resize(5 + 1024);
  Status status = server.feed(part);
  for (int i = 0; i < 16 && status.ok(); ++i) {
    status = server.feed(bytes_of(std::string_view("\x16\x03\x01\x04\x00", 5)));
    if (status.ok()) status = server.feed(Bytes(1024));
  }
  EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
}

TEST(Tls, TruncatedClientHello_leavesTheServerHandshaking) {
  auto client = session_of(Role::client);
  const Bytes hello = client.take_output();
  for (std::size_t size = 0; size < hello.size(); ++size) {
    auto server = session_of(Role::server);
    EXPECT_TRUE(server.feed(std::span(hello).first(size)).ok()) << size;
    EXPECT_EQ(server.state(), State::handshaking);
    EXPECT_TRUE(server.take_output().empty());
  }
}

TEST(Tls, ChangedClientHello_neverOpensAServerSession) {
  std::mt19937 random(1);
  for (int run = 0; run < 300; ++run) {
    auto client = session_of(Role::client);
    auto server = session_of(Role::server);
    Bytes hello = client.take_output();
    // TLS does not authenticate the record header, so the test leaves it unchanged.
    hello[5 + random() % (hello.size() - 5)] ^= static_cast<std::byte>(1 + random() % 255);
    [[maybe_unused]] const Status fed = server.feed(hello);
    carry(client, server);
    EXPECT_NE(server.state(), State::open) << run;
  }
}

TEST(Tls, ReplayedBytesOfAClient_areRefused) {
  auto client = session_of(Role::client);
  auto first = session_of(Role::server);
  Bytes recorded = carry(client, first);
  EXPECT_TRUE(client.write(bytes_of("the token")).ok());
  const Bytes token = carry(client, first);
  ASSERT_EQ(read_all(first), bytes_of("the token"));
  recorded.insert(recorded.end(), token.begin(), token.end());
  auto second = session_of(Role::server);
  EXPECT_EQ(second.feed(recorded).code(), Code::invalid_argument);
  EXPECT_EQ(read_all(second), Bytes());
  EXPECT_NE(second.state(), State::open);
}

TEST(Tls, ChangedRecord_endsAnOpenSession) {
  auto client = session_of(Role::client);
  auto server = session_of(Role::server);
  carry(client, server);
  EXPECT_TRUE(client.write(bytes_of("a request")).ok());
  Bytes record = client.take_output();
  record.back() ^= std::byte{1};
  EXPECT_TRUE(server.feed(record).ok());
  std::byte buffer[100];
  EXPECT_EQ(server.read(buffer).status().code(), Code::peer_failed);
  EXPECT_EQ(server.state(), State::failed);
}

TEST(Tls, UnreadBytes_areLimited) {
  auto client = session_of(Role::client);
  auto server = session_of(Role::server);
  carry(client, server);
  Status status;
  std::size_t fed = 0;
  while (status.ok() && fed < 4 * kMaxTlsUnreadBytes) {
    EXPECT_TRUE(client.write(Bytes(10'000)).ok());
    const Bytes record = client.take_output();
    status = server.feed(record);
    fed += record.size();
  }
  EXPECT_EQ(status.code(), Code::resource_exhausted);
}

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Peer = std::unique_ptr<SSL, decltype(&SSL_free)>;

/// An OpenSSL context with a self-signed certificate and without the key.
Context certified() {
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  return context;
}

/// Exchanges bytes between a session and a peer that uses OpenSSL directly, until neither sends
/// more.
void carry(TlsSession& session, SSL* peer) {
  for (int round = 0; round < 20; ++round) {
    const Bytes out = session.take_output();
    std::size_t count = 0;
    if (!out.empty()) BIO_write_ex(SSL_get_rbio(peer), out.data(), out.size(), &count);
    SSL_do_handshake(peer);
    Bytes in(BIO_ctrl_pending(SSL_get_wbio(peer)));
    if (!in.empty()) BIO_read_ex(SSL_get_wbio(peer), in.data(), in.size(), &count);
    [[maybe_unused]] const Status fed = session.feed(in);
  }
  ERR_clear_error();
}

Peer peer_of(SSL_CTX* context) {
  Peer peer(SSL_new(context), SSL_free);
  SSL_set_bio(peer.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  return peer;
}

TEST(Tls, ServerWithACertificateInsteadOfTheKey_isRefused) {
  const Context context = certified();
  const Peer server = peer_of(context.get());
  SSL_set_accept_state(server.get());
  auto client = session_of(Role::client);
  carry(client, server.get());
  EXPECT_EQ(client.state(), State::failed);
  EXPECT_EQ(code_of(client), Code::invalid_argument);
}

/// A server session to which a client has connected. The client has the settings of `context` but
/// not the key.
TlsSession visited_by(SSL_CTX* context) {
  const Peer client = peer_of(context);
  SSL_set_connect_state(client.get());
  auto server = session_of(Role::server);
  carry(server, client.get());
  return server;
}

TEST(Tls, ClientWithoutAKey_isRefused) {
  const Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  auto server = visited_by(context.get());
  EXPECT_EQ(server.state(), State::failed);
  EXPECT_EQ(code_of(server), Code::invalid_argument);
}

TEST(Tls, ClientOfTls12ThatOffersTheKey_isRefusedForItsVersion) {
  auto client = session_of(Role::client);
  Bytes hello = client.take_output();
  // The extension supported_versions with the one version 1.3, 0x0304.
  const Bytes versions = bytes_of(std::string_view("\x00\x2b\x00\x03\x02\x03\x04", 7));
  const auto at = std::search(hello.begin(), hello.end(), versions.begin(), versions.end());
  ASSERT_NE(at, hello.end());
  at[6] = std::byte{3};
  auto server = session_of(Role::server);
  EXPECT_FALSE(server.feed(hello).ok());
  EXPECT_EQ(server.state(), State::failed);
  const Bytes alert = server.take_output();
  ASSERT_FALSE(alert.empty());
  EXPECT_EQ(alert.back(), std::byte{SSL_AD_PROTOCOL_VERSION});
}

}  // namespace
}  // namespace tutti::crypto
