import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// The keys of a fleet, and the file that holds them.
struct FleetKeyTests {
  private static let secret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  private static let other = String(repeating: "7f", count: 32)

  @Test func `a code is the one that other programs compute`() throws {
    let key = try #require(FleetKey(hexadecimal: Self.secret))
    let text = SignedText(.message, of: "test", ["a", "b"])
    let code = "b8bed38cebca768c7878ce9df6a422aa175487b22b45fa4353b31628729b923a"
    #expect(key.id == "0b7e6e01")
    #expect(key.code(of: text) == code)
    #expect(key.accepts(code, of: text))
    #expect(!key.accepts(code.dropLast(), of: text))
    #expect(!key.accepts(code.replacing("b8", with: "b9"), of: text))
    #expect(!key.accepts("", of: text))
    #expect(!key.accepts(code, of: SignedText(.message, of: "test", ["ab"])))
    #expect(!key.accepts(code, of: SignedText(.message, of: "prod", ["a", "b"])))
    #expect(!key.accepts(code, of: SignedText(.command, of: "test", ["a", "b"])))
    #expect(FleetKey(hexadecimal: Self.secret.uppercased()) == key)
  }

  @Test(arguments: [
    "", "00", "x", String(repeating: "0", count: 63), String(repeating: "0", count: 65),
    String(repeating: "0", count: 258), String(repeating: "0g", count: 32),
  ])
  func `a text that is not a secret is refused as a key`(text: String) {
    #expect(FleetKey(hexadecimal: text) == nil)
  }

  @Test func `lists of values never look alike`() {
    let lists = [
      ["ab"], ["a", "b"], ["", "ab"], ["a", "", "b"], ["1:a1:b"], ["a1:b"], [], [""], ["é"],
      ["e\u{301}"],
    ]
    #expect(Set(lists.map { SignedText(.message, of: "f", $0).bytes }).count == lists.count)
  }

  private func request(_ path: String, _ rest: String = "") throws -> RelayOptions {
    let words = "--redis redis://h --fleet f --key-file \(path) \(rest)".split(separator: " ")
    let request = try RelayRequest(
      arguments: words.map(String.init), environment: [:], hostName: "h")
    guard case .run(let options) = request else { throw SupportError("it does not run") }
    return options
  }

  private func file(_ text: String, mode: mode_t = 0o600) throws -> (TemporaryDirectory, String) {
    let directory = try TemporaryDirectory()
    let path = directory.file("keys")
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    let bytes = Array(text.utf8)
    guard unsafe write(descriptor, bytes, bytes.count) == bytes.count else {
      throw SupportError("write \(path)", errno)
    }
    close(descriptor)
    unsafe chmod(path, mode)
    return (directory, path)
  }

  private func error(_ text: String, mode: mode_t = 0o600) throws -> String {
    let (directory, path) = try file(text, mode: mode)
    defer { withExtendedLifetime(directory) {} }
    return #expect(throws: UsageError.self) { try request(path) }?.description ?? ""
  }

  @Test func `the first key signs, and both count`() throws {
    let (directory, path) = try file("# new\n\n  \(Self.other)\r\n\(Self.secret)")
    defer { withExtendedLifetime(directory) {} }
    let options = try request(path, "--obey ops-1,ops-2 --unsigned accept")
    let keys = [Self.other, Self.secret].compactMap { FleetKey(hexadecimal: $0) }
    #expect(options.keys == keys)
    #expect(options.authority.keyNames == keys.map(\.id))
    #expect(options.obeyed == ["ops-1", "ops-2"] && options.acceptsUnsigned)
    #expect(try request(path).acceptsUnsigned == false)
  }

  @Test func `a file that holds no keys is refused, and shows nothing of them`() throws {
    #expect(try error("").contains("has 0 keys"))
    #expect(try error("\(Self.secret)\n\(Self.secret)").contains("the same twice"))
    #expect(
      try error(
        [Self.secret, Self.other, String(repeating: "1", count: 64)]
          .joined(separator: "\n")
      ).contains("has 3 keys"))
    let typo = try error("#\n\(Self.secret)x")
    #expect(typo.hasPrefix("line 2 of ") && !typo.contains("0001"))
    #expect(try error(String(repeating: "#", count: 5_000)).contains("something else"))
    for path in ["/no/such", "/", "/dev/null"] {
      #expect(throws: UsageError.self) { try request(path) }
    }
  }

  @Test func `a file that others can read or change is refused`() throws {
    for mode: mode_t in [0o604, 0o644, 0o602, 0o620] {
      let words = try error(Self.secret, mode: mode)
      #expect(words.contains(mode & 0o022 == 0 ? "others could read" : "others could change"))
    }
    let (directory, path) = try file(Self.secret, mode: 0o640)
    defer { withExtendedLifetime(directory) {} }
    #expect(try request(path).keys.count == 1)
  }

  @Test func `a host has one key for commands, and obeys hosts and keys`() throws {
    let (directory, path) = try file(Self.secret)
    let (other, two) = try file(Self.secret + "\n" + Self.secret)
    let (third, own) = try file(Self.other)
    defer { withExtendedLifetime((directory, other, third)) {} }
    func options(_ words: String...) throws -> RelayOptions? {
      let request = try RelayRequest(
        arguments: ["--redis", "redis://h", "--fleet", "f", "--key-file", path] + words,
        environment: [:], hostName: "h")
      guard case .run(let options) = request else { return nil }
      return options
    }
    let key = try #require(try options("--command-key-file", own)?.commandKey)
    // Every host has the key of the fleet.
    let error = #expect(throws: UsageError.self) { try options("--command-key-file", path) }
    #expect(error?.description.contains("a key of the fleet, which every host has") == true)
    let obeying = try options("--obey", "ops,\(key.name.text) ops-2")
    #expect(obeying?.obeyed == ["ops", "ops-2"] && obeying?.obeyedKeys == [key.name])
    #expect(try options("--obey", key.name.text)?.obeyed == nil)
    #expect(throws: UsageError.self) { try options("--command-key-file", two) }
    #expect(throws: UsageError.self) { try options("--obey", key.name.text + "0") }
  }

  @Test func `roles and exceptions mean nothing without a key`() throws {
    let (directory, path) = try file(Self.secret)
    defer { withExtendedLifetime(directory) {} }
    let words = [
      "--obey ops", "--unsigned accept", "--unsigned refuse", "--command-key-file \(path)",
    ]
    for words in words {
      #expect(throws: UsageError.self) {
        try RelayRequest(
          arguments: "--redis redis://h --fleet f \(words)".split(separator: " ").map(String.init),
          environment: [:], hostName: "h")
      }
    }
  }
}
