import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Encrypted connections to real servers.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: RedisServer.hasTLS, "the server has no TLS"),
  .enabled(if: Certificates.arePossible, "openssl is not installed"))
struct TLSTests {
  private let directory: TemporaryDirectory
  private let certificates: Certificates

  init() throws {
    // As relays do; see TLSSession.
    signal(SIGPIPE, SIG_IGN)
    directory = try TemporaryDirectory()
    certificates = try Certificates(in: directory)
  }

  private func server(
    _ pair: Certificates.Pair, wantsCertificates: Bool = false, options: [String] = []
  ) throws -> (server: RedisServer, port: UInt16) {
    try RedisServer.encrypted(
      in: directory, certificate: pair.certificate, key: pair.key, authorities: certificates.file,
      wantsCertificates: wantsCertificates, options: options)
  }

  private func connect(
    _ port: UInt16, host: String = "localhost", _ tls: RedisTLS?, password: String? = nil,
    patience: Duration = .seconds(60)
  ) throws -> RedisConnection {
    try RedisConnection(
      to: RedisAddress(.tcp(host: host, port: port), tls: tls, password: password),
      patience: patience)
  }

  private func error(
    _ port: UInt16, host: String = "localhost", _ tls: RedisTLS?, password: String? = nil,
    patience: Duration = .seconds(60)
  ) -> String {
    let error = #expect(throws: RedisError.self) {
      _ = try connect(port, host: host, tls, password: password, patience: patience)
        .ask(["PING"])
    }
    return error?.description ?? ""
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that proves its name is used`() throws {
    let (server, port) = try server(try certificates.pair("server"))
    defer { server.kill() }
    for host in ["localhost", "127.0.0.1"] {
      let connection = try connect(port, host: host, certificates.trust())
      #expect(try connection.ask(["PING"]).text == "PONG")
      #expect(connection.encryption?.hasPrefix("TLSv1.3, with a certificate") == true)
    }
    var address = RedisAddress(.tcp(host: "localhost", port: port), tls: certificates.trust())
    let check = RelayCheck(
      RelayOptions(address: address, fleet: "f", host: "a", store: directory.store))
    #expect(check.isWell, "\(check.lines)")
    #expect(
      check.lines.contains {
        $0.contains(" at rediss://localhost:\(port), ") && $0.contains("ms away, TLSv1.3, with a")
      }, "\(check.lines)")
    address.tls = nil
    #expect(
      self.error(port, nil).hasSuffix(": use rediss:// or sentinels:// if its port speaks TLS"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `TLS 1.2 suffices`() throws {
    let (server, port) = try server(
      try certificates.pair("server"), options: ["--tls-protocols", "TLSv1.2"])
    defer { server.kill() }
    let connection = try connect(port, certificates.trust())
    #expect(connection.encryption?.hasPrefix("TLSv1.2") == true)
    #expect(try connection.ask(["PING"]).text == "PONG")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that proves nothing is refused with what to do, and never gets the password`()
    throws
  {
    let strangers = try Certificates(in: directory, name: "strangers")
    let alone = try certificates.selfSigned("alone")
    let cases: [(Certificates.Pair, RedisTLS, String)] = [
      (
        try strangers.pair("strange"), certificates.trust(),
        "authority's certificate with --ca-file"
      ),
      (try certificates.pair("unknown"), RedisTLS(), "authority's certificate with --ca-file"),
      (try certificates.pair("late", valid: .past), certificates.trust(), "has expired: renew it"),
      (try certificates.pair("early", valid: .future), certificates.trust(), "is not valid yet"),
      (alone, certificates.trust(), "signed by itself, and this host does not trust it"),
      (
        try certificates.pair("localhost", for: "DNS:redis.internal"), certificates.trust(),
        "its certificate is not for 'localhost'"
      ),
      (
        try certificates.pair("client-only", use: "clientAuth"), certificates.trust(),
        "its certificate is refused: "
      ),
      (
        try certificates.pair("named", for: "DNS:redis.internal,IP:127.0.0.2"),
        certificates.trust(), "its certificate is not for 'localhost'"
      ),
      (
        try certificates.pair("broad", for: "DNS:local*"), certificates.trust(),
        "its certificate is not for 'localhost'"
      ),
    ]
    for (index, (pair, tls, words)) in cases.enumerated() {
      let (server, port) = try RedisServer.encrypted(
        in: directory, name: "\(index).sock", certificate: pair.certificate, key: pair.key,
        authorities: certificates.file)
      defer { server.kill() }
      let error = error(port, tls, password: "geheim")
      #expect(error.contains(words), "\(error)")
      let used = try server.command("INFO", "commandstats")
      #expect(!used.contains("cmdstat_auth") && !used.contains("cmdstat_client"), "\(used)")
      guard index == cases.count - 2 else { continue }
      #expect(self.error(port, host: "127.0.0.1", tls).contains("is not for '127.0.0.1'"))
    }
    let (server, port) = try server(alone)
    defer { server.kill() }
    let trusting = RedisTLS(authorities: alone.certificate)
    #expect(try connect(port, trusting).ask(["PING"]).text == "PONG")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that wants a certificate gets it, or says what is wrong with it`() throws {
    let (server, port) = try server(try certificates.pair("server"), wantsCertificates: true)
    defer { server.kill() }
    let strangers = try Certificates(in: directory, name: "strangers")
    let good = try certificates.pair("client")
    #expect(
      try connect(port, certificates.trust(showing: good)).ask(["PING"]).text == "PONG")
    #expect(
      error(port, certificates.trust()).hasPrefix("it wants a certificate of this host: use "))
    let late = try certificates.pair("late", valid: .past)
    #expect(
      error(port, certificates.trust(showing: late))
        == "this host's certificate has expired: renew it")
    let strange = try strangers.pair("strange")
    let error = error(port, certificates.trust(showing: strange))
    #expect(
      error.hasPrefix("it does not trust the authority of this host's certificate"), "\(error)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `answers and questions of any length go through`() throws {
    let (server, port) = try server(try certificates.pair("server"))
    defer { server.kill() }
    let connection = try connect(port, certificates.trust())
    for length in [0, 1, 16_383, 16_384, 16_385, 5_000_000] {
      let text = String(repeating: "x", count: length)
      #expect(try connection.ask(["SET", "k", text]).text == "OK")
      #expect(try connection.ask(["GET", "k"]).text == text)
    }
    let answers = try connection.ask((0..<10_000).map { ["ECHO", String($0)] })
    #expect(answers.map(\.text) == (0..<10_000).map { String($0) })
  }

  @Test(.timeLimit(.minutes(60)))
  func `a handshake that stops, or that never begins, is too late`() throws {
    let (server, port) = try server(try certificates.pair("server"))
    defer { server.kill() }
    server.stop()
    let tls = certificates.trust()
    let late = "the handshake of TLS has not ended for 300ms: check that its port speaks TLS"
    #expect(error(port, host: "127.0.0.1", tls, patience: .milliseconds(300)) == late)
    server.resume()
    // The beginning of what a server says first, all at once and byte by byte.
    let beginning: [UInt8] = [0x16, 3, 3, 0, 0x7A, 2, 0, 0, 0x76, 3, 3]
    for manner in [
      FakeServer.Manner.send(beginning), .drip(beginning + [UInt8](repeating: 1, count: 100)),
    ] {
      let fake = try FakeServer(manner)
      defer { fake.stop() }
      #expect(error(fake.port, host: "127.0.0.1", tls, patience: .milliseconds(300)) == late)
    }
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      ([UInt8]("-ERR unknown command\r\n".utf8), "it does not speak TLS at this port"),
      ([UInt8]("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), "it does not speak TLS at this port"),
      // Alerts: of a version that is too old, and of ciphers that do not fit.
      ([0x15, 3, 1, 0, 2, 2, 70], "it has no version of TLS that is safe: let it use TLS 1.2"),
      ([0x15, 3, 3, 0, 2, 2, 40], "it refuses the handshake of TLS"),
      ([0x15, 3, 3, 0, 2, 2, 80], "TLS has failed: "),
      ([], "it closed the connection"),
    ])
  func `a server without TLS is refused with what to do`(answer: [UInt8], words: String) throws {
    let fake = try FakeServer(.sendAndClose(answer))
    defer { fake.stop() }
    let error = error(fake.port, host: "127.0.0.1", certificates.trust())
    #expect(error.hasPrefix(words), "\(error)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the server is told which of its names is meant`() throws {
    let other = try certificates.pair("other", for: "DNS:other")
    let named = try certificates.pair("named", for: "DNS:localhost")
    let (child, port) = try Certificates.server(
      other,
      ["-servername", "localhost", "-cert2", named.certificate, "-key2", named.key])
    try child.send("+OK\r")
    let connection = try connect(port, certificates.trust())
    #expect(connection.encryption != nil)
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["-tls1_3", "-tls1_2"])
  func `a server may want new keys, or to negotiate again, at any time`(version: String) throws {
    let (child, port) = try Certificates.server(try certificates.pair("server"), [version])
    try child.send("+OK\r")
    let connection = try connect(port, certificates.trust())
    // New keys of both sides in TLS 1.3; in TLS 1.2 a new handshake, which is refused.
    // The server takes what stands in its input before what the client sends later.
    try child.send(version == "-tls1_3" ? "K" : "r")
    try connection.send(["PING"])
    while let line = try child.line(), !line.hasPrefix("PING") {}
    try child.send("+PONG\r")
    var answers: [RedisReply] = []
    while answers.isEmpty { answers = try connection.answers() }
    #expect(answers.first?.text == "PONG")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a connection that ends says so`() throws {
    let (child, port) = try Certificates.server(try certificates.pair("server"), [])
    try child.send("+OK\r")
    _ = try connect(port, certificates.trust())
    // Without a goodbye, the server would have to fear that an attacker has cut the connection.
    var lines: [String] = []
    while let line = try child.line() {
      lines.append(line)
      if line == "DONE" || line == "ERROR" { break }
    }
    #expect(lines.last == "DONE", "\(lines)")
  }

  @Test(arguments: [
    ("redis.internal", "redis.internal"), ("redis.internal.", "redis.internal"), ("::1", "::1"),
    ("", nil), (".", nil), (".internal", nil), ("good\0.evil", nil), ("a..", "a."),
  ])
  func `a certificate has to be for one name`(host: String, name: String?) {
    #expect(RedisTLS.name(of: host) == name)
  }

  @Test
  func `files that cannot be used are named with what to do, whether or not a server is there`()
    throws
  {
    let pair = try certificates.pair("client")
    let other = try certificates.pair("other")
    let locked = try certificates.locked(pair)
    let rsa = try certificates.selfSigned("rsa", key: ["-newkey", "rsa:2048"])
    func error(_ authorities: String, _ certificate: String? = nil, _ key: String? = nil) -> String
    {
      // There is no server at this port.
      self.error(1, RedisTLS(authorities: authorities, certificate: certificate, key: key))
    }
    let file = certificates.file
    #expect(error("/no/such").hasPrefix("the CA file '/no/such' cannot be read: "))
    #expect(error(directory.path).hasPrefix("the CA file '\(directory.path)' cannot be used"))
    #expect(error(pair.key).contains("must hold the certificates of authorities"))
    #expect(
      error(file, "/no/such", pair.key).contains("certificate file '/no/such' cannot be read"))
    #expect(error(file, pair.key, pair.key).contains("must hold this host's certificate as PEM"))
    for key in [other.key, rsa.key, locked.key, file] {
      let error = error(file, pair.certificate, key)
      #expect(error.contains("client key file '\(key)' cannot be used"), "\(error)")
      #expect(error.contains("key of the client certificate as PEM, without a passphrase"))
    }
  }

  @Test func `a check warns of secrets that every user may read`() throws {
    let pair = try certificates.pair("client")
    let password = directory.file("password")
    try Files.write(password, Array("geheim\n".utf8))
    for (mode, count) in [(0o644, 2), (0o640, 0)] {
      for file in [password, pair.key] { unsafe #expect(chmod(file, mode_t(mode)) == 0) }
      let words = [
        "--redis", "rediss://127.0.0.1:1", "--fleet", "f", "--store", directory.store,
        "--password-file", password, "--client-cert-file", pair.certificate, "--client-key-file",
        pair.key,
      ]
      guard
        case .run(let options) = try RelayRequest(
          arguments: words, environment: [:], hostName: "h")
      else { throw SupportError("not a relay") }
      let warnings = RelayCheck(options).lines.filter { $0.hasPrefix("warning: ") }
      #expect(warnings.count == count, "\(warnings)")
      #expect(warnings.allSatisfy { $0.contains("every user of this host may read '") })
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `relays tell each other through TLS, and use renewed certificates without a restart`()
    async throws
  {
    let (server, port) = try server(try certificates.pair("server"), wantsCertificates: true)
    defer { server.kill() }
    let hosts = try ["a", "b"].map { name in
      try TestHost(
        name, as: name, in: directory, address: "rediss://localhost:\(port)",
        tls: certificates.trust(showing: try certificates.pair("client-\(name)")))
    }
    for host in hosts {
      host.start()
      try await host.awaits(.connected)
    }
    try hosts[0].breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("b is forced open") {
      try hosts[1].snapshot("pay")?.mode == .forcedOpen
    }
    server.kill()
    for host in hosts { try await host.awaits(.problem) }
    _ = try certificates.pair("server", valid: .past)
    try server.start()
    for host in hosts {
      try await eventually("it says that the certificate has expired") {
        try host.store.fleetStanding()?.problem?.contains("has expired") == true
      }
    }
    server.kill()
    _ = try certificates.pair("server")
    try server.start()
    for host in hosts { try await host.awaits(.connected, times: 2) }
    try hosts[1].breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a observes") { try hosts[0].snapshot("pay")?.mode == .observe }
    for host in hosts { host.stop() }
  }
}

extension Certificates {
  /// A configuration that trusts this authority alone, and shows a certificate if there is one.
  func trust(showing pair: Pair? = nil) -> RedisTLS {
    RedisTLS(authorities: file, certificate: pair?.certificate, key: pair?.key)
  }
}
