internal import COpenSSL

/// A secret with which a host signs its commands, and that no other host has.
///
/// Every host can check its signatures by the key's public name. With the fleet's own key that
/// would be impossible: a host that can check a code with it can also make one.
package struct CommandKey: Sendable, Hashable {
  private let secret: [UInt8]

  /// The public name, by which other hosts know the key.
  package let name: CommandKeyName

  /// Reads a secret in hexadecimal; nil if it is none.
  package init?(hexadecimal text: some StringProtocol) {
    guard let bytes = Digest.bytes(text), bytes.count == 32,
      let name = unsafe Self.withKey(bytes, { unsafe CommandKeyName(of: $0) })
    else { return nil }
    secret = bytes
    self.name = name
  }

  func hasSecret(_ bytes: [UInt8]) -> Bool { secret == bytes }

  /// Signs a text, in hexadecimal; nil if OpenSSL cannot.
  func code(of text: SignedText) -> String? {
    unsafe Self.withKey(secret) { key in
      guard let context = unsafe EVP_MD_CTX_new() else { return nil }
      defer { unsafe EVP_MD_CTX_free(context) }
      var code = [UInt8](repeating: 0, count: 64)
      var count = code.count
      guard unsafe EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
        unsafe EVP_DigestSign(context, &code, &count, text.bytes, text.bytes.count) == 1,
        count == code.count
      else { return nil }
      return Digest.hexadecimal(code)
    }
  }

  private static func withKey<Result>(
    _ secret: [UInt8], _ body: (OpaquePointer) -> Result?
  ) -> Result? {
    let key = unsafe EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, secret, secret.count)
    guard let key = unsafe key else { return nil }
    defer { unsafe EVP_PKEY_free(key) }
    return unsafe body(key)
  }
}

/// The public name of a command key, by which every host can check what the key has signed.
package struct CommandKeyName: Sendable, Hashable {
  private let bytes: [UInt8]

  private static let beginning = "ed25519:"

  /// Reads a name; nil if it is none.
  package init?(_ text: some StringProtocol) {
    guard text.hasPrefix(Self.beginning),
      let bytes = Digest.bytes(text.dropFirst(Self.beginning.count)), bytes.count == 32
    else { return nil }
    self.bytes = bytes
  }

  /// The name of a key that OpenSSL has read.
  fileprivate init?(of key: OpaquePointer) {
    var bytes = [UInt8](repeating: 0, count: 32)
    var count = bytes.count
    guard unsafe EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == bytes.count else {
      return nil
    }
    self.bytes = bytes
  }

  /// The whole name, as `--obey` takes it.
  package var text: String { Self.beginning + Digest.hexadecimal(bytes) }

  /// The beginning of the name, which tells keys apart.
  package var short: String { Digest.hexadecimal(bytes.prefix(4)) }

  /// Whether a word is meant to be a name.
  static func isMeant(by word: some StringProtocol) -> Bool { word.contains(":") }

  /// Whether the key has signed a text with a code in hexadecimal.
  func accepts(_ code: some StringProtocol, of text: SignedText) -> Bool {
    guard let code = Digest.bytes(code), code.count == 64 else { return false }
    let key = unsafe EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, bytes, bytes.count)
    guard let key = unsafe key else { return false }
    defer { unsafe EVP_PKEY_free(key) }
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer { unsafe EVP_MD_CTX_free(context) }
    return unsafe EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
      && EVP_DigestVerify(context, code, code.count, text.bytes, text.bytes.count) == 1
  }
}
