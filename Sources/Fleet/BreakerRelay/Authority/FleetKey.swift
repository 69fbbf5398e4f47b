internal import COpenSSL
internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// A secret that the relays of a fleet share, and sign their texts with.
package struct FleetKey: Sendable, Hashable {
  private let secret: [UInt8]

  /// Distinguishes the key from others, and tells nothing about it.
  package let id: String

  /// How many bytes a secret has at least, which is what SHA-256 can make use of.
  private static let shortest = 32
  private static let longest = 128

  /// Reads a secret in hexadecimal; nil if it is none.
  package init?(hexadecimal text: some StringProtocol) {
    guard let bytes = Digest.bytes(text), (Self.shortest...Self.longest).contains(bytes.count)
    else { return nil }
    guard let digest = Digest.keyed(bytes, Array("the name of a key".utf8)) else { return nil }
    secret = bytes
    id = Digest.hexadecimal(digest.prefix(4))
  }

  /// Whether its secret is also that of a command key, which then every host of the fleet would have.
  func isSame(as key: CommandKey) -> Bool { key.hasSecret(secret) }

  /// The code by which a host with the secret recognizes a text, in hexadecimal.
  package func code(of text: SignedText) -> String? {
    Digest.keyed(secret, text.bytes).map { Digest.hexadecimal($0) }
  }

  /// Whether a code is that of a text; how long that takes tells nothing about the right one.
  package func accepts(_ code: some StringProtocol, of text: SignedText) -> Bool {
    guard let right = self.code(of: text).map({ Array($0.utf8) }) else { return false }
    let given = Array(code.utf8)
    return unsafe given.count == right.count && CRYPTO_memcmp(given, right, right.count) == 0
  }
}

/// Digests by OpenSSL, and bytes in hexadecimal.
enum Digest {
  /// HMAC-SHA-256 of bytes.
  static func keyed(_ secret: [UInt8], _ bytes: [UInt8]) -> [UInt8]? {
    var digest = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 0
    let done = unsafe HMAC(
      EVP_sha256(), secret, Int32(secret.count), bytes, bytes.count, &digest, &count)
    return unsafe done != nil && count == 32 ? digest : nil
  }

  /// The bytes that digits stand for; nil if they are no whole bytes.
  static func bytes(_ text: some StringProtocol) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count % 2 == 0 else { return nil }
    var bytes: [UInt8] = []
    for place in stride(from: 0, to: digits.count, by: 2) {
      guard let high = value(digits[place]), let low = value(digits[place + 1]) else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }
}

/// The digest of a value on the server, by which its scripts recognize the value: they can tell the
/// SHA-1 digest of any bytes, also of those that are not text.
enum ServerDigest {
  static func text(of value: String) -> String {
    var digest = [UInt8](repeating: 0, count: 20)
    var count: UInt32 = 0
    let bytes = Array(value.utf8)
    let done = unsafe EVP_Digest(bytes, bytes.count, &digest, &count, EVP_sha1(), nil)
    return done == 1 && count == 20 ? Digest.hexadecimal(digest) : ""
  }
}

/// A text to sign: its kind, and values in a certain order, each with its length before it.
///
/// Two different lists of values never have the same bytes.
package struct SignedText: Sendable, Hashable {
  /// The kind of a text, so that none can stand for one of another kind.
  package enum Kind: String, Sendable {
    case message, command, host, breaker
  }

  package let bytes: [UInt8]

  package init(_ kind: Kind, of fleet: String, _ values: [String]) {
    var bytes: [UInt8] = []
    for value in ["shared-breaker", kind.rawValue, fleet] + values {
      bytes += Array("\(value.utf8.count):".utf8)
      bytes += Array(value.utf8)
    }
    self.bytes = bytes
  }
}

/// The file that holds the keys of a fleet.
enum KeyFile {
  /// The keys, of which the first one signs.
  ///
  /// Each line is a secret in hexadecimal; empty lines, and those that begin with #, do not count.
  ///
  /// - Throws: `UsageError` if the file cannot be used, or if others could read or change it.
  static func keys(at path: String) throws(UsageError) -> [FleetKey] {
    let name = "the key file '\(OutsideText.quoted(path))'"
    let keys = try secrets(at: path, name) { FleetKey(hexadecimal: $0) }
    guard (1...2).contains(keys.count), Set(keys).count == keys.count else {
      let count = CountedNoun.text(keys.count, "key")
      throw UsageError(
        "\(name) has \(count)\(Set(keys).count < keys.count ? ", the same twice" : "")",
        "write one key, or two different ones while you replace it")
    }
    return keys
  }

  /// The key with which a host signs its commands, in a file like the other.
  static func commandKey(at path: String) throws(UsageError) -> CommandKey {
    let name = "the command key file '\(OutsideText.quoted(path))'"
    let keys = try secrets(at: path, name) { CommandKey(hexadecimal: $0) }
    guard keys.count == 1 else {
      throw UsageError(
        "\(name) has \(CountedNoun.text(keys.count, "key"))",
        "write one key; while you replace it, --obey names both")
    }
    return keys[0]
  }

  private static func secrets<Key>(
    at path: String, _ name: String, _ read: (Substring) -> Key?
  ) throws(UsageError) -> [Key] {
    let text = try text(of: path, name)
    var keys: [Key] = []
    for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
      .enumerated()
    {
      let words = line.split { $0 == " " || $0 == "\t" || $0 == "\r" }
      guard let word = words.first, word.first != "#" else { continue }
      guard words.count == 1, let key = read(word) else {
        // The line may be a secret with a typing error, so it is not shown.
        throw UsageError(
          "line \(number + 1) of \(name) is no key",
          "write 64 hexadecimal digits there, as 'openssl rand -hex 32' makes them")
      }
      keys.append(key)
    }
    return keys
  }

  private static func text(of path: String, _ name: String) throws(UsageError) -> String {
    func unreadable(_ number: Int32) -> UsageError {
      UsageError("\(name) cannot be read: \(SystemError.text(number))", "check the path")
    }
    // Opening a pipe must not wait for its writer.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw unreadable(errno) }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw unreadable(errno) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw UsageError("\(name) is no ordinary file", "check the path")
    }
    guard status.st_uid == 0 || status.st_uid == geteuid() else {
      throw UsageError("\(name) belongs to another user", "run 'sudo chown root' on it")
    }
    // A group may read it, because Kubernetes and systemd give rights to services in this way.
    guard status.st_mode & 0o027 == 0 else {
      throw UsageError(
        "others could \(status.st_mode & 0o022 == 0 ? "read" : "change") \(name)",
        "run 'sudo chmod 600' on it, and make a new key if others have seen it")
    }
    var bytes = [UInt8](repeating: 0, count: 4_096)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    guard count >= 0 else { throw unreadable(errno) }
    guard count < bytes.count, let text = String(validating: bytes[..<count], as: UTF8.self) else {
      throw UsageError("\(name) holds something else than keys", "check the path")
    }
    return text
  }
}
