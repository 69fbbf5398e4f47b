import BreakerRelay
import TestSupport
import Testing

/// The command line of `cbrelay`.
struct RelayOptionsTests {
  private func request(
    _ line: String, _ environment: [String: String] = [:]
  ) throws -> RelayRequest {
    try RelayRequest(
      arguments: line.split(separator: " ").map(String.init), environment: environment,
      hostName: "web-1.example")
  }

  private func options(
    _ line: String, _ environment: [String: String] = [:]
  ) throws -> RelayOptions {
    guard case .run(let options) = try request(line, environment) else {
      throw SupportError("\(line) does not run a relay")
    }
    return options
  }

  @Test func `variables can replace options, and options take precedence`() throws {
    let plain = try options("--redis redis://h --fleet prod")
    #expect(plain.fleet == "prod")
    #expect(plain.host == "web-1.example")
    #expect(plain.store == nil)
    #expect(plain.maximumStream == 100_000)
    let variables = [
      "SHARED_BREAKER_REDIS": "redis://h", "SHARED_BREAKER_FLEET": "prod",
      "SHARED_BREAKER_HOST": "a",
    ]
    #expect(try options("", variables).host == "a")
    #expect(try options("--host=b --fleet=test", variables).host == "b")
    #expect(try options("--host=b --fleet=test", variables).fleet == "test")
    let rest = try options(
      "--redis redis://h --fleet f --store /s --max-stream 5000 --json")
    #expect(rest.store == "/s")
    #expect(rest.maximumStream == 5_000)
    #expect(rest.isJSON)
  }

  @Test func `an empty variable counts as none`() throws {
    let empty = [
      "SHARED_BREAKER_REDIS": "redis://h", "SHARED_BREAKER_FLEET": "prod",
      "SHARED_BREAKER_HOST": "", "SHARED_BREAKER_REDIS_PASSWORD": "",
    ]
    #expect(try options("", empty).host == "web-1.example")
    #expect(try options("", empty).address.password == nil)
    #expect(throws: UsageError.self) { try options("", ["SHARED_BREAKER_REDIS": ""]) }
  }

  @Test func `the password comes from a file or a variable`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.file("password")
    try Files.write(path, Array("geheim\nmore\n".utf8))
    let line = "--redis redis://u@h --fleet f"
    #expect(try options(line + " --password-file " + path).address.password == "geheim")
    let variable = ["SHARED_BREAKER_REDIS_PASSWORD": "word"]
    #expect(try options(line, variable).address.password == "word")
    try Files.write(path, [0x0A])
    #expect(throws: UsageError.self) { try options(line + " --password-file " + path) }
    #expect(throws: UsageError.self) { try options(line + " --password-file /no/such/file") }
  }

  @Test func `a user without a password is refused with what to do`() throws {
    let line = "--redis redis://u@h --fleet f"
    let error = #expect(throws: UsageError.self) { try options(line) }
    #expect(error?.description.contains("--password-file") == true)
    #expect(error?.description.contains("$SHARED_BREAKER_REDIS_PASSWORD") == true)
    #expect(try options("--redis redis://u:p@h --fleet f").address.password == "p")
    #expect(try options(line, ["SHARED_BREAKER_REDIS_PASSWORD": "w"]).address.user == "u")
  }

  @Test(arguments: ["--ca-file", "--client-cert-file", "--client-key-file"])
  func `a file for TLS is refused where nothing would be encrypted`(option: String) {
    for address in ["redis://h", "unix:///s"] {
      let error = #expect(throws: UsageError.self) {
        try options("--redis \(address) --fleet f \(option) /etc/hosts")
      }
      #expect(error?.description.contains("use rediss://") == true)
    }
    let name = option.dropFirst(2).uppercased().map { $0 == "-" ? "_" : $0 }
    let variables = ["SHARED_BREAKER_REDIS_\(String(name))": "/etc/hosts"]
    #expect(throws: UsageError.self) { try options("--redis redis://h --fleet f", variables) }
  }

  @Test func `the files for TLS come from options or variables, the last two together`() throws {
    let all = "--ca-file /ca --client-cert-file /cert --client-key-file /key"
    let good = try options("--redis rediss://h --fleet f \(all)")
    #expect(good.address.tls == RedisTLS(authorities: "/ca", certificate: "/cert", key: "/key"))
    #expect(good.secretFiles == ["/key"])
    #expect(try options("--redis rediss://h --fleet f").address.tls == RedisTLS())
    let variables = [
      "SHARED_BREAKER_REDIS_CA_FILE": "/ca", "SHARED_BREAKER_REDIS_CLIENT_CERT_FILE": "/cert",
      "SHARED_BREAKER_REDIS_CLIENT_KEY_FILE": "/key",
    ]
    #expect(try options("--redis rediss://h --fleet f", variables) == good)
    for option in ["--client-cert-file", "--client-key-file"] {
      let error = #expect(throws: UsageError.self) {
        try options("--redis rediss://h --fleet f \(option) /etc/hosts")
      }
      #expect(error?.description.contains("together") == true)
    }
  }

  @Test func `sentinels have a user and a password of their own`() throws {
    let line = "--redis sentinel://u@a,b/main --fleet f"
    let variables = [
      "SHARED_BREAKER_REDIS_PASSWORD": "p", "SHARED_BREAKER_REDIS_SENTINEL_USER": "v",
      "SHARED_BREAKER_REDIS_SENTINEL_PASSWORD": "q",
    ]
    let address = try options(line, variables).address
    #expect(address.user == "u" && address.password == "p")
    guard case .sentinels(let sentinels) = address.place else { throw SupportError("\(address)") }
    #expect(sentinels.user == "v" && sentinels.password == "q" && sentinels.name == "main")
    #expect(sentinels.members.map(\.host) == ["a", "b"])
    #expect(try options(line + " --sentinel-user v", variables).address == address)
    let directory = try TemporaryDirectory()
    let file = directory.file("password")
    try Files.write(file, Array("q\n".utf8))
    let both = try options(line + " --sentinel-password-file \(file)", variables)
    #expect(both.address == address)
    #expect(both.secretFiles == [file])
    for (address, rest) in [
      ("redis://h", "--sentinel-user v"), ("redis://h", "--sentinel-password-file \(file)"),
      ("sentinel://h/m", "--sentinel-user v"),
    ] {
      let error = #expect(throws: UsageError.self) {
        try options("--redis \(address) --fleet f \(rest)")
      }
      #expect(error?.description.contains("sentinels, but") == true)
    }
  }

  @Test(arguments: [
    "", "--redis redis://h", "--fleet f", "--redis redis://h --fleet a/b",
    "--redis redis://h --fleet f --host a:b", "--redis redis://h --fleet f --host",
    "--redis redis://h --fleet f word", "--redis redis://h --fleet f --colour",
    "--redis redis://h --fleet f --fleet f", "--redis redis://h --fleet f --max-stream 999",
    "--redis redis://h --fleet f --max-stream x", "--redis= --fleet f",
  ])
  func `a command line that makes no sense is refused`(line: String) {
    #expect(throws: UsageError.self) { try request(line) }
  }

  @Test(arguments: [
    "redis://u:secret@h", "--redis:redis://u:secret@h", "--rediss=redis://:secret@h",
  ])
  func `a password in a misplaced word is not shown`(word: String) {
    let error = #expect(throws: UsageError.self) { try request("--fleet f \(word)") }
    #expect(error?.description.contains("redis") == true)
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: ["--check=1", "--json=yes", "--help="])
  func `an option that takes no value is not an unknown one`(word: String) {
    let error = #expect(throws: UsageError.self) {
      try request("--redis redis://h --fleet f \(word)")
    }
    let name = word.prefix { $0 != "=" }
    #expect(error?.description.hasPrefix("\(name) takes no value") == true)
  }

  @Test func `help and version need nothing else`() throws {
    #expect(try request("--help") == .help)
    #expect(try request("--redis x -h") == .help)
    #expect(try request("--version") == .version)
    guard case .check = try request("--redis redis://h --fleet f --check") else {
      Issue.record("--check is not understood")
      return
    }
  }

  @Test func `the help fits into a terminal`() {
    for line in RelayHelp.page.split(separator: "\n") { #expect(line.count <= 100, "\(line)") }
  }
}
