#include "crypto/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace tutti::crypto {

namespace {

constexpr std::string_view kIdentity = "tutti 1";
constexpr std::array<unsigned char, 2> kSuite{0x13, 0x02};  // TLS_AES_256_GCM_SHA384
constexpr const char* kSuiteName = "TLS_AES_256_GCM_SHA384";
constexpr auto kHandshakeRecord = std::to_integer<std::uint8_t>(kTlsFirstByte);
constexpr std::uint8_t kAlertRecord = 0x15;
constexpr std::size_t kRecordHeaderBytes = 5;
constexpr std::size_t kMessageHeaderBytes = 4;
constexpr std::size_t kMaxHelloBytes = 4096;

using SessionParameters = std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)>;

/// The pre-shared key as an OpenSSL session; null if OpenSSL lacks the cipher suite or if memory is
/// short.
SSL_SESSION* parameters_of(SSL* session) {
  const auto* key = static_cast<const Secret*>(SSL_get_app_data(session));
  const SSL_CIPHER* suite = SSL_CIPHER_find(session, kSuite.data());
  SessionParameters made(SSL_SESSION_new(), SSL_SESSION_free);
  const auto bytes = key->bytes();
  if (!made || suite == nullptr ||
      SSL_SESSION_set1_master_key(made.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                                  bytes.size()) != 1 ||
      SSL_SESSION_set_cipher(made.get(), suite) != 1 ||
      SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return made.release();
}

int offer_key(SSL* session, const EVP_MD*, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** parameters) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *parameters = parameters_of(session);
  return *parameters != nullptr;
}

int find_key(SSL* session, const unsigned char* identity, std::size_t size,
             SSL_SESSION** parameters) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), size);
  *parameters = offered == kIdentity ? parameters_of(session) : nullptr;
  return 1;
}

/// Refuses a client that offers no pre-shared key. OpenSSL might answer this client with a
/// HelloRetryRequest, and the second ClientHello would escape the check of its size in
/// `check_beginning`.
int require_key(SSL* session, int* alert, void*) {
  const unsigned char* offer = nullptr;
  std::size_t size = 0;
  if (SSL_client_hello_get0_ext(session, TLSEXT_TYPE_psk, &offer, &size) == 1)
    return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_HANDSHAKE_FAILURE;
  return SSL_CLIENT_HELLO_ERROR;
}

SSL_CTX* make_context() {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_method()),
                                                            SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), kSuiteName) != 1 ||
      SSL_CTX_set1_groups_list(context.get(), "X25519") != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1) {
    return nullptr;
  }
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_clear_options(context.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  SSL_CTX_set_client_hello_cb(context.get(), require_key, nullptr);
  return context.release();
}

/// The OpenSSL context that all sessions share; never freed, because threads may use it until the
/// process ends. Null if OpenSSL lacks TLS 1.3, the cipher suite or X25519.
SSL_CTX* shared_context() {
  static SSL_CTX* const context = make_context();
  return context;
}

Status no_tls() {
  return failure(Code::unsupported,
                 "the peer does not speak TLS 1.3: use the same version of Tutti at both ends, and "
                 "check the address and port");
}

Status other_key() {
  return failure(Code::invalid_argument,
                 "the peer has another key, or none: give both ends the same key");
}

/// True if `error`, the first one that OpenSSL reported, means that the peer has another key or
/// none.
bool tells_other_key(unsigned long error) {
  constexpr std::array kReasons{SSL_R_BINDER_DOES_NOT_VERIFY,
                                SSL_R_CALLBACK_FAILED,
                                SSL_R_CERTIFICATE_VERIFY_FAILED,
                                SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC,
                                SSL_R_DIGEST_CHECK_FAILED,
                                SSL_R_NO_SHARED_CIPHER,
                                SSL_R_SSLV3_ALERT_BAD_RECORD_MAC,
                                SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
                                SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER,
                                SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
                                SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY};
  return ERR_GET_LIB(error) == ERR_LIB_SSL &&
         std::find(kReasons.begin(), kReasons.end(), ERR_GET_REASON(error)) != kReasons.end();
}

}  // namespace

void TlsSession::Free::operator()(ssl_st* session) const { SSL_free(session); }

Result<TlsSession> TlsSession::begin(Role role, const Secret& key) {
  const Status lacking = failure(
      Code::unsupported,
      "OpenSSL offers no {} with X25519 on this host: enable its default provider", kSuiteName);
  SSL_CTX* const context = shared_context();
  if (context == nullptr) return lacking;
  TlsSession made(std::make_unique<Secret>(key.copy()),
                  std::unique_ptr<ssl_st, Free>(SSL_new(context)));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (!made.session_ || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return lacking;
  }
  SSL* const session = made.session_.get();
  SSL_set_bio(session, in, out);
  SSL_set_app_data(session, made.key_.get());
  if (role == Role::server) {
    SSL_set_accept_state(session);
    return made;
  }
  SSL_set_connect_state(session);
  // Without SSL_VERIFY_PEER, OpenSSL would accept any certificate of a server that does not use the
  // pre-shared key.
  SSL_set_verify(session, SSL_VERIFY_PEER, nullptr);
  if (Status status = made.shake_hands(); !status) return lacking;
  return made;
}

/// Checks the first bytes of the peer before OpenSSL sees them, because OpenSSL reserves as much
/// memory as the first message announces.
Status TlsSession::check_beginning() const {
  const auto at = [this](std::size_t i) { return std::to_integer<std::uint8_t>(beginning_[i]); };
  const std::size_t size = beginning_.size();
  if (size > 0 && at(0) != kHandshakeRecord && at(0) != kAlertRecord) return no_tls();
  if (size > 1 && at(1) != 3) return no_tls();
  if (size < kRecordHeaderBytes || at(0) == kAlertRecord) return {};
  if (std::size_t{at(3)} * 256 + at(4) < kMessageHeaderBytes) return no_tls();
  if (size < kRecordHeaderBytes + kMessageHeaderBytes) return {};
  const std::size_t announced = std::size_t{at(6)} * 65536 + std::size_t{at(7)} * 256 + at(8);
  return announced > kMaxHelloBytes ? no_tls() : Status();
}

Status TlsSession::feed(std::span<const std::byte> bytes) {
  if (state_ == State::failed) return failure_;
  if (bytes.empty() || state_ == State::closed) return {};
  if (state_ == State::handshaking) {
    const bool first = handshake_bytes_ == beginning_.size();
    handshake_bytes_ += bytes.size();
    if (first) {
      beginning_.insert(beginning_.end(), bytes.begin(), bytes.end());
      if (Status status = check_beginning(); !status) return fail(std::move(status));
      const bool judged = beginning_.size() >= kRecordHeaderBytes + kMessageHeaderBytes ||
                          beginning_.front() == std::byte{kAlertRecord};
      if (!judged) return {};
      bytes = beginning_;
    }
  }
  BIO* const in = SSL_get_rbio(session_.get());
  if (bytes.size() + BIO_ctrl_pending(in) > kMaxTlsUnreadBytes) {
    return fail(failure(Code::resource_exhausted,
                        "a TLS session has {} unread bytes, more than {}: call read before feed",
                        bytes.size() + BIO_ctrl_pending(in), kMaxTlsUnreadBytes));
  }
  std::size_t written = 0;
  if (BIO_write_ex(in, bytes.data(), bytes.size(), &written) != 1)
    return fail(
        failure(Code::resource_exhausted,
                "no memory for {} bytes of TLS input: free memory, or use fewer connections",
                bytes.size()));
  beginning_.clear();
  if (state_ != State::handshaking) return {};
  if (Status status = shake_hands(); !status) return status;
  if (state_ == State::handshaking && handshake_bytes_ > kMaxTlsHandshakeBytes)
    return fail(no_tls());
  return {};
}

Status TlsSession::shake_hands() {
  ERR_clear_error();
  const int done = SSL_do_handshake(session_.get());
  if (done == 1) {
    // OpenSSL counts a session as reused if its handshake used the pre-shared key. Any other
    // handshake is refused, even if OpenSSL accepts it.
    if (SSL_session_reused(session_.get()) != 1) return fail(other_key());
    state_ = State::open;
    return {};
  }
  if (SSL_get_error(session_.get(), done) == SSL_ERROR_WANT_READ) return {};
  return broken();
}

Result<std::size_t> TlsSession::read(std::span<std::byte> into) {
  if (state_ == State::failed) return failure_;
  if (state_ != State::open || into.empty()) return std::size_t{0};
  ERR_clear_error();
  std::size_t got = 0;
  const int done = SSL_read_ex(session_.get(), into.data(), into.size(), &got);
  if (done == 1) return got;
  switch (SSL_get_error(session_.get(), done)) {
    case SSL_ERROR_WANT_READ:
      return std::size_t{0};
    case SSL_ERROR_ZERO_RETURN:
      state_ = State::closed;
      return std::size_t{0};
    default:
      return broken();
  }
}

Status TlsSession::write(std::span<const std::byte> bytes) {
  if (state_ == State::failed) return failure_;
  if (state_ != State::open)
    return failure(Code::internal,
                   "a TLS session can send only in the state 'open': write after its handshake, "
                   "and before the peer closes it");
  if (bytes.empty()) return {};
  ERR_clear_error();
  std::size_t written = 0;
  const int done = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written);
  if (done == 1 && written == bytes.size()) return {};
  return broken();
}

std::vector<std::byte> TlsSession::take_output() {
  BIO* const out = SSL_get_wbio(session_.get());
  std::vector<std::byte> bytes(BIO_ctrl_pending(out));
  std::size_t taken = 0;
  if (!bytes.empty()) BIO_read_ex(out, bytes.data(), bytes.size(), &taken);
  bytes.resize(taken);
  return bytes;
}

Status TlsSession::fail(Status why) {
  state_ = State::failed;
  failure_ = std::move(why);
  return failure_;
}

/// Ends the session with an error. During the handshake, OpenSSL's first error determines the code
/// of this error; later the code is always Code::peer_failed.
Status TlsSession::broken() {
  const bool handshaking = state_ == State::handshaking;
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  if (!handshaking) {
    return fail(failure(Code::peer_failed,
                        "the bytes of a TLS connection were changed or cut on the way: check the "
                        "network path between both ends"));
  }
  return fail(tells_other_key(error) ? other_key() : no_tls());
}

}  // namespace tutti::crypto
