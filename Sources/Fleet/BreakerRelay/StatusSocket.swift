internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// The socket beside a store at which a relay answers questions about its status, and hears which
/// user is about to give a command.
///
/// A client connects, sends a question and a line feed, and reads one JSON document to the end. Only users of the store can connect.
final class StatusSocket {
  private let descriptor: Int32
  private let path: String
  private let stop: WakePipe
  private var thread: BackgroundThread?

  private static let suffix = "-relay.sock"

  /// How long a client may take to ask, and to read the answer.
  private static let patience = Duration.seconds(2)

  /// Begins to listen, and replaces the socket of a relay that has ended.
  ///
  /// - Parameters:
  ///   - store: The path of the store, whose rights the socket gets.
  ///   - answer: Makes the document, for the user who asks, if the kernel can name them.
  /// - Throws: `RelayTrouble` if there can be no such socket.
  init(
    store: String, answer: @escaping @Sendable (RelayStatus.Question, HostUser?) -> String
  ) throws(RelayTrouble) {
    path = store + Self.suffix
    guard let stop = WakePipe() else { throw Self.trouble(path, EMFILE) }
    self.stop = stop
    descriptor = try Self.listening(at: path, store: store)
    let descriptor = descriptor
    thread = BackgroundThread { Self.serve(descriptor, until: stop, answer) }
    guard thread != nil else {
      Glibc.close(descriptor)
      throw Self.trouble(path, EAGAIN)
    }
  }

  /// Stops listening; the next relay replaces the socket's file.
  func close() {
    stop.wake()
    thread?.join()
    thread = nil
    Glibc.close(descriptor)
  }

  private static func trouble(_ path: String, _ number: Int32) -> RelayTrouble {
    .system("cannot listen at \(OutsideText.visible(path)): \(SystemError.text(number))")
  }
}

/// Listening.
extension StatusSocket {
  private static func listening(
    at path: String, store: String
  ) throws(RelayTrouble) -> Int32 {
    let kind =
      Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
      | Int32(SOCK_NONBLOCK.rawValue)
    let listener = socket(AF_UNIX, kind, 0)
    guard listener >= 0 else { throw trouble(path, errno) }
    var status = stat()
    guard unsafe lstat(store, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
      let nursery = PrivateDirectory(path + ".new")
    else {
      let number = errno
      Glibc.close(listener)
      throw trouble(path, number)
    }
    defer { nursery.remove() }
    // Without /proc by its path: the next step finds the socket only if it is in the directory that
    // is open.
    let fresh = ["/proc/self/fd/\(nursery.descriptor)", nursery.path].map { "\($0)/\(name)" }
    // If this user may not give the file to the store's owner, it stays this user's.
    guard fresh.contains(where: { SocketAddress(path: $0)?.bind(listener) == true }),
      unsafe fchownat(
        nursery.descriptor, name, status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW) == 0
        || errno == EPERM,
      unsafe fchmodat(nursery.descriptor, name, status.st_mode & 0o666, 0) == 0,
      listen(listener, 16) == 0,
      unsafe renameat(nursery.descriptor, name, AT_FDCWD, path) == 0
    else {
      let number = errno
      unsafe unlinkat(nursery.descriptor, name, 0)
      Glibc.close(listener)
      throw trouble(path, number)
    }
    return listener
  }

  /// The name of the socket in the directory in which it is made.
  private static let name = "socket"

  /// A directory that only this user can enter, beside the store.
  ///
  /// Every user of a store may be able to put another file in the place of one in the store's own
  /// directory, at any moment. In here the socket gets its rights before another user can reach it, or
  /// put anything in its place.
  private struct PrivateDirectory {
    let path: String
    let descriptor: Int32

    /// Makes the directory; nil, with `errno` set, if that fails.
    init?(_ prefix: String) {
      path = "\(prefix)-\(String(UInt64.random(in: .min ... .max), radix: 36))"
      guard unsafe mkdir(path, 0o700) == 0 else { return nil }
      descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard descriptor >= 0 else {
        let number = errno
        unsafe rmdir(path)
        errno = number
        return nil
      }
      var status = stat()
      guard unsafe fstat(descriptor, &status) == 0, status.st_uid == geteuid(),
        status.st_mode & 0o077 == 0
      else {
        Glibc.close(descriptor)
        errno = EPERM
        return nil
      }
    }

    func remove() {
      unsafe rmdir(path)
      Glibc.close(descriptor)
    }
  }
}

/// Answering.
extension StatusSocket {
  private static func serve(
    _ listener: Int32, until stop: WakePipe,
    _ answer: @Sendable (RelayStatus.Question, HostUser?) -> String
  ) {
    // A client that says nothing keeps no other one waiting.
    var clients: [(descriptor: Int32, end: ContinuousClock.Instant)] = []
    defer { for client in clients { Glibc.close(client.descriptor) } }
    while true {
      let awaited = [stop.reading, listener] + clients.map(\.descriptor)
      var entries = awaited.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      if clients.count >= mostClients { entries[1].events = 0 }
      let end = clients.map(\.end).min()
      let left = end.map { Int32(clamping: max(0, DurationText.milliseconds($0 - .now)) + 1) }
      _ = unsafe poll(&entries, nfds_t(entries.count), left ?? -1)
      if entries[0].revents != 0 { return }
      var silent: [(descriptor: Int32, end: ContinuousClock.Instant)] = []
      for (client, entry) in zip(clients, entries.dropFirst(2)) {
        if entry.revents != 0 { reply(to: client.descriptor, answer) }
        if entry.revents == 0, client.end > .now {
          silent.append(client)
        } else {
          Glibc.close(client.descriptor)
        }
      }
      clients = silent
      guard entries[1].revents != 0 else { continue }
      let client = accept(listener, nil, nil)
      if client >= 0 {
        clients.append((client, .now + patience))
      } else if errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM {
        // The client is still waiting, so without a pause this would be a busy loop.
        _ = unsafe poll(&entries, 1, 500)
        if entries[0].revents != 0 { return }
      }
    }
  }

  /// How many clients may be about to ask.
  private static let mostClients = 64

  private static func reply(
    to client: Int32, _ answer: (RelayStatus.Question, HostUser?) -> String
  ) {
    _ = fcntl(client, F_SETFD, FD_CLOEXEC)
    _ = fcntl(client, F_SETFL, O_NONBLOCK)
    // The rest of a question has to follow its beginning at once.
    let exchange = Exchange(client: client, deadline: .now + .milliseconds(200))
    guard let question = exchange.question() else { return }
    var user: HostUser?
    if case .giving = question { user = HostUser.peer(of: client) }
    // Making the answer takes as long as the server needs.
    Exchange(client: client, deadline: .now + RelayContext.patience + patience).send(
      answer(question, user))
  }

  /// Reading from and writing to a client, up to a deadline.
  private struct Exchange {
    let client: Int32
    let deadline: ContinuousClock.Instant

    /// Waits until the client is ready; returns false if it is too late.
    private func wait(for event: Int32) -> Bool {
      var entry = pollfd(fd: client, events: Int16(event), revents: 0)
      let left = DurationText.milliseconds(deadline - .now)
      return unsafe left > 0 && poll(&entry, 1, Int32(clamping: left)) > 0
    }

    /// The client's question; nil if it takes too long, or is another one.
    func question() -> RelayStatus.Question? {
      var question: [UInt8] = []
      let longest = RelayStatus.Question.longest
      while question.count < longest, question.last != UInt8(ascii: "\n"), wait(for: POLLIN) {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = unsafe read(client, &bytes, bytes.count)
        guard count > 0 else { break }
        question += bytes[..<count]
      }
      guard question.last == UInt8(ascii: "\n") else { return nil }
      return RelayStatus.Question(words: String(decoding: question.dropLast(), as: UTF8.self))
    }

    func send(_ text: String) {
      var rest = Array(text.utf8)[...]
      while !rest.isEmpty, wait(for: POLLOUT) {
        let count = unsafe rest.withUnsafeBytes { bytes in
          unsafe Glibc.send(client, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
      }
    }
  }
}
