#pragma once
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#if OPENSSL_VERSION_MAJOR < 3
#error "OpenSSL 3 is needed"
#endif

// Macros of OpenSSL as functions, because Swift does not see macros.

// Permits TLS 1.2 and later, or only what the system's configuration permits if that is stricter.
static inline int sb_tls_demand_version(SSL_CTX *context) {
  return SSL_CTX_get_min_proto_version(context) >= TLS1_2_VERSION ||
         SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

// Lets a write take a part of its bytes and be repeated from elsewhere in memory; refuses to negotiate
// again.
static inline void sb_tls_set_manners(SSL_CTX *context) {
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
}

// Says in the handshake which of its names the server is asked under.
static inline int sb_tls_name_server(SSL *session, const char *name) {
  return (int)SSL_set_tlsext_host_name(session, name);
}

// Whether an error is one of the handshake and of reading, with this reason.
static inline int sb_tls_is_reason(unsigned long error, int reason) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == reason;
}
