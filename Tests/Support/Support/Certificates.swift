/// An authority of one test, and the certificates that it gives out; all in the test's directory.
package final class Certificates {
  /// A certificate and its key.
  package struct Pair {
    package var certificate: String
    package var key: String
  }

  /// When a certificate is valid.
  package enum Time: String {
    case now = "20200101000000Z 20991231000000Z"
    case past = "20200101000000Z 20210101000000Z"
    case future = "20980101000000Z 20991231000000Z"
  }

  private static let program = "/usr/bin/openssl"

  package static let arePossible = Files.exists(program)

  private let directory: TemporaryDirectory
  private let name: String
  private let authority: Pair

  /// Makes an authority; several in a directory have different names.
  package init(in directory: TemporaryDirectory, name: String = "authority") throws {
    self.directory = directory
    self.name = name
    authority = Pair(
      certificate: directory.file("\(name).pem"), key: directory.file("\(name).key"))
    try Self.run(
      ["req", "-x509", "-days", "3650", "-subj", "/CN=\(name)", "-out", authority.certificate]
        + Self.newKey(authority.key))
    let settings = """
      [ca]
      default_ca = usual
      [usual]
      new_certs_dir = \(directory.path)
      database = \(directory.file("\(name).index"))
      rand_serial = yes
      default_md = sha256
      policy = any
      copy_extensions = copy
      unique_subject = no
      [any]
      commonName = supplied

      """
    try Files.write(directory.file("\(name).cnf"), Array(settings.utf8))
    try Files.write(directory.file("\(name).index"), [])
  }

  /// The file of the authority's certificate.
  package var file: String { authority.certificate }

  /// Gives out a certificate; a later one of the same file replaces it.
  package func pair(
    _ file: String, for names: String = "DNS:localhost,IP:127.0.0.1", valid time: Time = .now,
    use: String? = nil
  ) throws -> Pair {
    let pair = Pair(
      certificate: directory.file("\(file).pem"), key: directory.file("\(file).key"))
    let request = directory.file("\(file).csr")
    var words = ["-subj", "/CN=\(file)", "-addext", "subjectAltName=\(names)", "-out", request]
    if let use { words += ["-addext", "extendedKeyUsage=\(use)"] }
    try Self.run(["req", "-new"] + words + Self.newKey(pair.key))
    let times = time.rawValue.split(separator: " ").map(String.init)
    try Self.run([
      "ca", "-batch", "-notext", "-config", directory.file("\(name).cnf"), "-cert",
      authority.certificate, "-keyfile", authority.key, "-in", request, "-out", pair.certificate,
      "-startdate", times[0], "-enddate", times[1],
    ])
    return pair
  }

  /// A certificate that has signed itself.
  package func selfSigned(_ file: String, key: [String]? = nil) throws -> Pair {
    let pair = Pair(
      certificate: directory.file("\(file).pem"), key: directory.file("\(file).key"))
    try Self.run(
      [
        "req", "-x509", "-days", "3650", "-subj", "/CN=\(file)", "-addext",
        "subjectAltName=DNS:localhost", "-out", pair.certificate,
      ] + (key.map { $0 + ["-nodes", "-keyout", pair.key] } ?? Self.newKey(pair.key)))
    return pair
  }

  /// Encrypts the key of a certificate with a passphrase.
  package func locked(_ pair: Pair) throws -> Pair {
    var locked = pair
    locked.key += ".locked"
    try Self.run(["ec", "-in", pair.key, "-out", locked.key, "-aes256", "-passout", "pass:geheim"])
    return locked
  }

  private static func newKey(_ path: String) -> [String] {
    ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]
  }

  private static func run(_ words: [String]) throws {
    let child = try Child(program, words, hasWords: true)
    let output = try child.rest()
    guard child.waitForEnd() == 0 else { throw SupportError("openssl \(words): \(output)") }
  }

  /// OpenSSL's own server; `next` is the line that says at which port.
  package static func server(_ pair: Pair, _ options: [String]) throws -> (
    child: Child, port: UInt16
  ) {
    let words = [
      "s_server", "-accept", "127.0.0.1:0", "-cert", pair.certificate, "-key", pair.key,
    ]
    let child = try Child(program, words + options, hasWords: true)
    while let line = try child.line() {
      guard line.hasPrefix("ACCEPT "), let colon = line.lastIndex(of: ":"),
        let port = UInt16(line[line.index(after: colon)...])
      else { continue }
      return (child, port)
    }
    throw SupportError("openssl s_server has not started")
  }
}
