internal import Glibc

/// The user who runs a program, as the history names them.
public struct HostUser {
  /// The real user of this process, or the effective one of a process at the other end of a socket.
  private var number: UInt32

  /// The user who has logged in, according to the kernel; nil if it does not know.
  private var login: UInt32?

  /// The user who called `sudo`, according to the environment; used only if it can be a name.
  private var claim: String?

  /// The name of a user; nil if it has none.
  private var name: (UInt32) -> String?

  /// Describes a user.
  public init(
    number: UInt32, login: UInt32?, claim: String? = nil, name: @escaping (UInt32) -> String?
  ) {
    self.number = number
    self.login = login
    self.claim = claim
    self.name = name
  }

  /// The user as text: `deploy`, `root (login deploy)`, or `root (SUDO_USER deploy)` if only the
  /// environment says so; a number for a user without a name.
  ///
  /// `sudo` changes the real user, but not the login, which is what an operator wants to know. Any
  /// user can set SUDO_USER, so the text says where the name comes from.
  public var words: String {
    let user = words(of: number)
    if let login { return login == number ? user : "\(user) (login \(words(of: login)))" }
    guard let claim, !claim.isEmpty, claim != user, claim.utf8.allSatisfy(Self.isOfName) else {
      return user
    }
    return "\(user) (SUDO_USER \(claim))"
  }

  /// Whether a byte can be part of a name, so that a claim cannot look like more than one.
  private static func isOfName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), 0x80...:
      true
    default: "._-@+$\\".utf8.contains(byte)
    }
  }

  private func words(of number: UInt32) -> String { name(number) ?? String(number) }
}

extension HostUser {
  /// The user of this process.
  public static func current(_ environment: [String: String]) -> HostUser {
    HostUser(
      number: getuid(), login: login(of: "self"), claim: environment["SUDO_USER"], name: name)
  }

  /// The user of the process at the other end of a local socket, as the kernel knows them.
  ///
  /// - Parameter socket: A connected socket of the kind `AF_UNIX`.
  /// - Returns: The user; nil if it is one that this process's user namespace cannot name.
  public static func peer(of socket: Int32) -> HostUser? {
    // The process, the user and the group.
    var numbers: [UInt32] = [0, 0, 0]
    var size = socklen_t(MemoryLayout<UInt32>.stride * numbers.count)
    guard unsafe getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &numbers, &size) == 0,
      numbers[1] != .max, numbers[1] != unnamed
    else { return nil }
    return HostUser(number: numbers[1], login: peerLogin(of: socket, numbers[0]), name: name)
  }

  /// The user who has logged in to start the process at the other end; nil unless it is certain.
  ///
  /// The number of a process that has ended may be another one's by now, so the process has to be
  /// there still after its login was read. A kernel before 6.5 cannot tell.
  private static func peerLogin(of socket: Int32, _ process: UInt32) -> UInt32? {
    let peerDescriptor: Int32 = 77  // SO_PEERPIDFD
    var descriptor: Int32 = -1
    var size = socklen_t(MemoryLayout<Int32>.size)
    guard process > 0, isProcOwn,
      unsafe getsockopt(socket, SOL_SOCKET, peerDescriptor, &descriptor, &size) == 0,
      descriptor >= 0
    else { return nil }
    defer { close(descriptor) }
    let login = login(of: String(process))
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    // It becomes readable when the process ends.
    return unsafe poll(&entry, 1, 0) == 0 ? login : nil
  }

  /// Whether `/proc` numbers processes as this one does, and not as those of another namespace.
  private static var isProcOwn: Bool {
    var target = [CChar](repeating: 0, count: 32)
    let length = unsafe readlink("/proc/self", &target, target.count)
    guard length > 0 else { return false }
    return target.prefix(length).map { UInt8(bitPattern: $0) }.elementsEqual("\(getpid())".utf8)
  }

  /// The number that the kernel shows for users whom a namespace cannot name.
  private static var unnamed: UInt32 {
    text(of: "/proc/sys/kernel/overflowuid").flatMap { UInt32($0) } ?? 65_534
  }

  /// The user who has logged in; nil if there is none, or if the kernel does not record logins.
  private static func login(of process: String) -> UInt32? {
    let number = text(of: "/proc/\(process)/loginuid").flatMap { UInt32($0) }
    // The highest number stands for no user.
    return number == .max ? nil : number
  }

  /// The first line of a short file.
  private static func text(of path: String) -> Substring? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    guard count > 0 else { return nil }
    return String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n").first
  }

  private static func name(of number: UInt32) -> String? {
    guard let entry = unsafe getpwuid(number), let name = unsafe entry.pointee.pw_name
    else { return nil }
    return unsafe String(cString: name)
  }
}
