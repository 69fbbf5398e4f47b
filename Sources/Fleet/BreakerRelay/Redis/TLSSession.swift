internal import COpenSSL
internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// The files by which a server and this host prove their names to each other.
///
/// A server always has to prove it; nothing here can change that.
package struct RedisTLS: Sendable, Hashable {
  /// The certificates of the authorities that are trusted; nil for those of the system.
  package var authorities: String?

  /// This host's certificate and those that lead from it to its authority; nil for none.
  package var certificate: String?

  /// The key of that certificate, without a passphrase.
  package var key: String?

  package init(authorities: String? = nil, certificate: String? = nil, key: String? = nil) {
    self.authorities = authorities
    self.certificate = certificate
    self.key = key
  }

  /// The name or the address that a server's certificate has to be for; nil if none can be.
  package static func name(of host: String) -> String? {
    // A name with a dot at its end is the same name. With a dot at its beginning, OpenSSL would accept
    // every name that ends so.
    let name = host.hasSuffix(".") ? host.dropLast() : host[...]
    return name.isEmpty || name.hasPrefix(".") || name.contains("\0") ? nil : String(name)
  }
}

/// An encrypted conversation with a server that has proved its name; nothing here waits.
@safe final class TLSSession {
  private let session: OpaquePointer
  private let host: String

  /// Whether the server has proved who it is; nothing is sent before.
  private var isProven = false

  /// Whether OpenSSL has given up on the connection, so that nothing more may be sent.
  private var isBroken = false

  /// Reads the files, and prepares a conversation with a server that has a name.
  ///
  /// - Throws: `RedisError` if a file cannot be used.
  init(_ tls: RedisTLS, host: String) throws(RedisError) {
    let context = unsafe try Self.context(tls)
    defer { unsafe SSL_CTX_free(context) }
    guard let session = unsafe SSL_new(context) else { throw Self.noMemory }
    unsafe self.session = unsafe session
    self.host = host
    guard let name = RedisTLS.name(of: host), unsafe Self.expect(name, by: session) else {
      // The server would not have to prove its name, so there is no connection.
      throw RedisError("the name '\(OutsideText.quoted(host))' cannot be checked: use another name")
    }
    unsafe SSL_set_connect_state(session)
  }

  /// Sets the connection, a descriptor that does not block, and that the caller closes afterwards.
  ///
  /// The process has to ignore SIGPIPE, because OpenSSL writes to a server that has closed.
  func use(_ descriptor: Int32) throws(RedisError) {
    guard unsafe SSL_set_fd(session, descriptor) == 1 else { throw Self.noMemory }
  }

  /// Tells the server that nothing more follows, if that does not block.
  deinit {
    Self.forgetErrors()
    if isProven, !isBroken { unsafe SSL_shutdown(session) }
    unsafe SSL_free(session)
  }

  /// Goes on with the handshake.
  ///
  /// - Returns: The event to wait for before the next step; nil once the server has proved who it
  ///   is.
  func shakeHands() throws(RedisError) -> Int32? {
    Self.forgetErrors()
    let code = unsafe SSL_do_handshake(session)
    guard code == 1 else { return try wanted(after: code) }
    // The handshake itself fails otherwise. An unchecked connection must not be used.
    guard unsafe SSL_get_verify_result(session) == Int(X509_V_OK),
      unsafe SSL_get0_peer_certificate(session) != nil
    else { throw RedisError("it has not proved its name '\(OutsideText.quoted(host))'") }
    isProven = true
    return nil
  }

  func read(into buffer: inout [UInt8]) throws(RedisError) -> TransportStep {
    Self.forgetErrors()
    let count = unsafe buffer.withUnsafeMutableBytes {
      unsafe SSL_read(session, $0.baseAddress, Int32(clamping: $0.count))
    }
    if count > 0 { return .moved(Int(count)) }
    return .waits(for: try wanted(after: count))
  }

  func write(_ bytes: ArraySlice<UInt8>) throws(RedisError) -> TransportStep {
    Self.forgetErrors()
    let count = unsafe bytes.withUnsafeBytes {
      unsafe SSL_write(session, $0.baseAddress, Int32(clamping: $0.count))
    }
    if count > 0 { return .moved(Int(count)) }
    do throws(RedisError) {
      return .waits(for: try wanted(after: count))
    } catch {
      // A server that refuses this host's certificate says so and closes, perhaps before this write.
      var rest = [UInt8](repeating: 0, count: 16_384)
      while case .moved = try read(into: &rest) {}
      throw error
    }
  }

  /// Whether bytes have been decrypted but not read; `poll` knows nothing of them.
  var hasUnread: Bool { unsafe SSL_pending(session) > 0 }

  /// The version of the protocol, and for how many days the server's certificate is still valid.
  var summary: String {
    let version = unsafe SSL_get_version(session).map { unsafe String(cString: $0) } ?? "TLS"
    var days: Int32 = 0
    var seconds: Int32 = 0
    guard let certificate = unsafe SSL_get0_peer_certificate(session),
      unsafe ASN1_TIME_diff(&days, &seconds, nil, X509_get0_notAfter(certificate)) == 1
    else { return version }
    return "\(version), with a certificate that is valid for \(CountedNoun.text(Int(days), "day"))"
  }
}

/// Preparing.
extension TLSSession {
  private static let noMemory = RedisError("no memory is left for a connection")

  /// Makes the context for connections; the caller frees it.
  private static func context(_ tls: RedisTLS) throws(RedisError) -> OpaquePointer {
    forgetErrors()
    guard let context = unsafe SSL_CTX_new(TLS_client_method()) else { throw noMemory }
    do throws(RedisError) {
      unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
      unsafe sb_tls_set_manners(context)
      guard unsafe sb_tls_demand_version(context) == 1 else {
        throw RedisError("the system's configuration of OpenSSL permits no TLS: change it")
      }
      // A relay has no user who could type a passphrase.
      unsafe SSL_CTX_set_default_passwd_cb(context) { _, _, _, _ in 0 }
      unsafe try trust(tls.authorities, in: context)
      if let certificate = tls.certificate, let key = tls.key {
        unsafe try present(certificate, key, in: context)
      }
    } catch {
      unsafe SSL_CTX_free(context)
      throw error
    }
    return unsafe context
  }

  private static func trust(
    _ authorities: String?, in context: OpaquePointer
  ) throws(RedisError) {
    guard let authorities else {
      guard unsafe SSL_CTX_set_default_verify_paths(context) == 1 else { throw noMemory }
      return
    }
    guard unsafe SSL_CTX_load_verify_locations(context, authorities, nil) == 1 else {
      throw unusable(
        "the CA file", authorities, "it must hold the certificates of authorities as PEM")
    }
  }

  private static func present(
    _ certificate: String, _ key: String, in context: OpaquePointer
  ) throws(RedisError) {
    guard unsafe SSL_CTX_use_certificate_chain_file(context, certificate) == 1 else {
      throw unusable(
        "the client certificate file", certificate,
        "it must hold this host's certificate as PEM, and those of authorities between after it")
    }
    // The latter notices a key of another kind than the certificate's.
    guard unsafe SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1,
      unsafe SSL_CTX_check_private_key(context) == 1
    else {
      throw unusable(
        "the client key file", key,
        "it must hold the key of the client certificate as PEM, without a passphrase")
    }
  }

  /// The error for a file that cannot be used; `demand` says what must be in it.
  private static func unusable(
    _ what: String, _ path: String, _ demand: String
  ) -> RedisError {
    let name = "\(what) '\(OutsideText.quoted(path))'"
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      return RedisError("\(name) cannot be read: \(SystemError.text(errno)): check the path")
    }
    close(descriptor)
    return RedisError("\(name) cannot be used (\(reason(of: ERR_peek_error()))): \(demand)")
  }

  /// Makes the server prove a name or an address; returns whether that is possible.
  private static func expect(_ name: String, by session: OpaquePointer) -> Bool {
    if HostLookup.isNumber(name) {
      return unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), name) == 1
    }
    // Only the names that are there to be checked count, as RFC 9525 demands.
    unsafe SSL_set_hostflags(
      session, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
    return unsafe SSL_set1_host(session, name) == 1 && sb_tls_name_server(session, name) == 1
  }

  /// Forgets earlier errors, so that the next step finds only its own.
  private static func forgetErrors() {
    ERR_clear_error()
    errno = 0
  }
}

/// Errors of OpenSSL.
extension TLSSession {
  /// The event that OpenSSL waits for after a step that did not succeed.
  ///
  /// - Throws: `RedisError` if it cannot go on.
  private func wanted(after code: Int32) throws(RedisError) -> Int32 {
    let system = errno
    switch unsafe SSL_get_error(session, code) {
    case SSL_ERROR_WANT_READ: return POLLIN
    case SSL_ERROR_WANT_WRITE: return POLLOUT
    case SSL_ERROR_ZERO_RETURN: throw .closed
    case SSL_ERROR_SYSCALL:
      isBroken = true
      throw .broken(system)
    default:
      isBroken = true
      throw problem(ERR_peek_error())
    }
  }

  private func problem(_ error: UInt) -> RedisError {
    if isReason(error, SSL_R_CERTIFICATE_VERIFY_FAILED) {
      return doubt(Int32(clamping: unsafe SSL_get_verify_result(session)))
    }
    for (reason, words) in Self.meanings where isReason(error, reason) { return RedisError(words) }
    return RedisError("TLS has failed: \(Self.reason(of: error))")
  }

  private func isReason(_ error: UInt, _ reason: Int32) -> Bool {
    sb_tls_is_reason(error, reason) == 1
  }

  /// The error for a certificate that proves nothing.
  private func doubt(_ code: Int32) -> RedisError {
    let name = OutsideText.quoted(host)
    switch code {
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
      return RedisError(
        "its certificate is not for '\(name)': use a name that it has, or give the server a certificate"
          + " with this one among its alternative names")
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return RedisError(
        "its certificate has expired: renew it, or set the clock of this host if that is wrong")
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return RedisError(
        "its certificate is not valid yet: set the clock of this host, or wait until it is")
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return RedisError(
        "its certificate is signed by itself, and this host does not trust it: name the file of that"
          + " certificate with --ca-file if it is the right one")
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return RedisError(
        "its certificate is of an authority that this host does not trust: name the file of the"
          + " authority's certificate with --ca-file, or install ca-certificates if it is a public one"
      )
    default:
      let why = unsafe X509_verify_cert_error_string(Int(code)).map { unsafe String(cString: $0) }
      return RedisError("its certificate is refused: \(why ?? "code \(code)")")
    }
  }

  /// The meanings of OpenSSL's reasons for a relay.
  private static let meanings: [(reason: Int32, words: String)] = [
    (SSL_R_UNEXPECTED_EOF_WHILE_READING, RedisError.closed.description),
    (SSL_R_WRONG_VERSION_NUMBER, noTLS),
    (SSL_R_HTTP_REQUEST, noTLS),
    (SSL_R_PACKET_LENGTH_TOO_LONG, noTLS),
    (SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, noCertificate),
    (
      SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
      "it refuses the handshake of TLS: it may want a certificate, which --client-cert-file and"
        + " --client-key-file name, or its ciphers are too old"
    ),
    (
      SSL_R_TLSV1_ALERT_UNKNOWN_CA,
      "it does not trust the authority of this host's certificate: use a certificate of one that it"
        + " trusts"
    ),
    (SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "this host's certificate has expired: renew it"),
    (
      SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
      "this host's certificate has been revoked: use another one"
    ),
    (SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, badCertificate),
    (SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, badCertificate),
    (SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, badCertificate),
    (SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, tooOld),
    (SSL_R_UNSUPPORTED_PROTOCOL, tooOld),
  ]

  private static let noTLS =
    "it does not speak TLS at this port: use its port for TLS"
  private static let noCertificate =
    "it wants a certificate of this host: use --client-cert-file and --client-key-file"
  private static let badCertificate =
    "it refuses this host's certificate: use one that is for clients and of an authority that it trusts"
  private static let tooOld = "it has no version of TLS that is safe: let it use TLS 1.2 or later"

  /// The words of OpenSSL for an error.
  private static func reason(of error: UInt) -> String {
    unsafe ERR_reason_error_string(error).map { unsafe OutsideText.quoted(String(cString: $0)) }
      ?? "OpenSSL gives no reason"
  }
}
