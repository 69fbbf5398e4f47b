import BreakerStore
import Glibc
import SharedBreaker
import TestShim
import TestSupport

/// The options that a puppet is started with.
struct PuppetOptions {
  var path: String
  var store: StoreOptions

  /// How many more files may be opened while the store is created; unlimited if nil.
  var descriptors: Int?
  let events = EventLog()

  init(_ arguments: some Sequence<String>) throws {
    var values: [String: String] = [:]
    for argument in arguments {
      let parts = argument.split(separator: "=", maxSplits: 1)
      values[String(parts[0])] = parts.count > 1 ? String(parts[1]) : ""
    }
    guard let path = values["store"] else { throw SupportError("no store") }
    self.path = path
    let events = events
    // Long enough for a busy machine. A test about the timeout sets its own.
    store = StoreOptions(
      lockTimeout: .seconds(300), program: values["own-name"] == nil ? "puppet" : nil,
      observer: { events.add($0) })
    // Mapped before the process becomes a user that may not map it.
    if let clock = values["clock"] { store.clock = try TestClock(path: clock).clock }
    if let timeout = values["lock-timeout"].flatMap({ Int($0) }) {
      store.lockTimeout = .milliseconds(timeout)
    }
    if let action = values["on-failure"] {
      guard let action = Self.actions[action] else { throw SupportError("no action \(action)") }
      store.onStoreFailure = action
    }
    if values["user"] == "nobody" {
      let code = ts_become(65_534, 65_534)
      guard code == 0 else { throw SupportError("setuid", code) }
    }
    descriptors = values["descriptors"].flatMap { Int($0) }
    if values["watch"] != nil { Gate.shared.install() }
  }

  private static let actions: [String: StoreFailureAction] = [
    "local": .continueLocally, "permit": .permit, "reject": .reject, "throw": .throw,
  ]
}

/// Starting while few descriptors are left.
extension PuppetOptions {
  /// Creates the store; with the option `descriptors=N`, while only N more files may be opened.
  func makeStore() -> SharedStore {
    guard let descriptors else { return SharedStore(path: path, options: store) }
    let made = leaving(descriptors) {
      let made = SharedStore(path: path, options: store)
      // This may fail because descriptors are missing. Later attempts have enough of them.
      _ = try? made.connect()
      return made
    }
    _ = try? made.connect()
    return made
  }

  private func leaving<Result>(_ count: Int, _ body: () -> Result) -> Result {
    let files = __rlimit_resource_t(7)
    var limit = rlimit()
    unsafe getrlimit(files, &limit)
    let usual = limit.rlim_cur
    let lowestFree = dup(0)
    close(lowestFree)
    limit.rlim_cur = rlim_t(Int(lowestFree) + count)
    unsafe setrlimit(files, &limit)
    defer {
      limit.rlim_cur = usual
      unsafe setrlimit(files, &limit)
    }
    return body()
  }
}

/// The events that the observer has received.
final class EventLog: @unchecked Sendable {
  private let lock = Lock()
  private var events: [String] = []

  func add(_ event: StoreEvent) {
    let text: String? =
      switch event {
      // The answer of the call shows it already.
      case .rejected: nil
      case .unavailable: "unavailable"
      case .available: "available"
      case .notDurable: "not-durable"
      case .transition(_, let from, let to, _): "\(from)>\(to)"
      case .transitionAlone(_, let from, let to, _): "alone-\(from)>\(to)"
      case .policyDiffers: "policy-differs"
      case .notShared(let name, _): "not-shared-\(name)"
      case .hookGaveUp(_, let entry, _): "gave-up-\(entry)"
      }
    if let text { lock.withLock { events.append(text) } }
  }

  var text: String { lock.withLock { events.joined(separator: " ") } }
}
