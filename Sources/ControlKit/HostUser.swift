import Glibc

/// The user who runs a command, as the history names them.
struct HostUser {
  /// The real user of the process.
  var number: UInt32

  /// The user who has logged in, by the kernel's account; nil if it has none.
  var login: UInt32?

  /// What the environment claims about who called `sudo`; only what can be a name is repeated.
  var claim: String?

  /// The name of a user; nil if it has none.
  var name: (UInt32) -> String?

  /// `deploy`, `root (login deploy)`, or, where only the environment says so, `root (SUDO_USER
  /// deploy)`; a number for a user without a name.
  ///
  /// `sudo` changes the real user, but not who has logged in, which is what an operator wants to
  /// know. Anybody can set SUDO_USER, so it is named as what it is.
  var words: String {
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
  static func current(_ environment: [String: String]) -> HostUser {
    HostUser(
      number: getuid(), login: login(), claim: environment["SUDO_USER"], name: name)
  }

  /// Who has logged in; nil if nobody has, or if the kernel keeps no account of it.
  private static func login() -> UInt32? {
    do throws(ControlError) {
      let number = UInt32(try InputText.read("/proc/self/loginuid"))
      // The highest number stands for nobody.
      return number == .max ? nil : number
    } catch {
      return nil
    }
  }

  private static func name(of number: UInt32) -> String? {
    guard let entry = unsafe getpwuid(number), let name = unsafe entry.pointee.pw_name
    else { return nil }
    return unsafe String(cString: name)
  }
}
