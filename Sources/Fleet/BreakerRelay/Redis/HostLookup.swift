internal import Glibc
internal import ProgramKit
internal import SharedBreaker
internal import Synchronization

/// Finds the addresses of a server's name, and never waits for longer than it may.
///
/// The system's own lookup has no limit: it can take minutes if the name servers do not answer. So each
/// lookup runs in a thread of its own. If its answer comes too late, the next question gets it.
package final class HostLookup: Sendable {
  /// The answer of the system's lookup: addresses as numbers, or why there are none.
  package typealias Answer = Result<[String], RedisError>

  /// The lookup of this process.
  package static let system = HostLookup { systemAddresses(of: $0) }

  private let resolve: @Sendable (String) -> Answer

  /// The lookups whose answers have not been taken yet; at most one for each name.
  private let lookups = Mutex<[String: Lookup]>([:])

  /// Creates a lookup that asks a function, which may take as long as it likes.
  package init(resolve: @escaping @Sendable (String) -> Answer) { self.resolve = resolve }

  private final class Lookup: Sendable {
    let answer = Mutex<Answer?>(nil)
    let isDone: WakePipe
    let thread = Mutex<BackgroundThread?>(nil)

    init(isDone: WakePipe) { self.isDone = isDone }
  }

  /// Returns the addresses of a host.
  ///
  /// - Throws: `RedisError` if there are none, or if they are not known in time.
  package func addresses(of host: String, patience: Duration) throws(RedisError) -> [String] {
    if Self.isNumber(host) { return [host] }
    guard let lookup = begin(host) else {
      throw RedisError("no thread or file descriptor is left to look up its name")
    }
    var entry = pollfd(fd: lookup.isDone.reading, events: Int16(POLLIN), revents: 0)
    let limit = Int32(clamping: max(0, DurationText.milliseconds(patience)))
    _ = unsafe poll(&entry, 1, limit)
    guard let answer = lookup.answer.withLock({ $0 }) else {
      throw RedisError(
        "its name has not been found for \(DurationText.format(patience)): check the name servers"
          + " of this host")
    }
    lookups.withLock { if $0[host] === lookup { $0[host] = nil } }
    lookup.thread.withLock { thread in
      thread?.join()
      thread = nil
    }
    return try answer.get()
  }

  /// The lookup of a name that is under way, or a new one; nil if the system lacks something.
  private func begin(_ host: String) -> Lookup? {
    lookups.withLock { lookups in
      if let known = lookups[host] { return known }
      guard let isDone = WakePipe() else { return nil }
      let lookup = Lookup(isDone: isDone)
      let resolve = resolve
      let thread = BackgroundThread {
        let answer = resolve(host)
        lookup.answer.withLock { $0 = answer }
        lookup.isDone.wake()
      }
      guard let thread else { return nil }
      lookup.thread.withLock { $0 = thread }
      lookups[host] = lookup
      return lookup
    }
  }

  /// Whether a host is an address already.
  static func isNumber(_ host: String) -> Bool {
    var four = in_addr()
    var six = in6_addr()
    return unsafe inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, host, &six) == 1
  }

  private static func systemAddresses(of host: String) -> Answer {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &found)
    guard code == 0 else {
      let why = unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "code \(code)"
      return .failure(
        RedisError("\(why): check the address, and whether the server runs"))
    }
    defer { unsafe freeaddrinfo(found) }
    var addresses: [String] = []
    var next = unsafe found
    while let entry = unsafe next {
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      let code = unsafe getnameinfo(
        entry.pointee.ai_addr, entry.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0,
        NI_NUMERICHOST)
      let address = String(
        decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      if code == 0, !addresses.contains(address) { addresses.append(address) }
      unsafe next = unsafe entry.pointee.ai_next
    }
    return .success(addresses)
  }
}
