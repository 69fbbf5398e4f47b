internal import CSharedBreaker
internal import SharedBreaker
internal import Synchronization

/// A store that a C program has open; its breakers, news and hooks keep it until they are freed.
final class ClosableStore: Sendable {
  private let shared: SharedStore
  private let closed = Atomic(false)

  /// Whether it belongs to the process, so that no caller may close it.
  let isShared: Bool

  init(_ shared: SharedStore, isShared: Bool = false) {
    self.shared = shared
    self.isShared = isShared
  }

  /// Whether uses are refused; healthy calls ask too.
  ///
  /// Otherwise they would go on while the store is being closed, because their knowledge is
  /// current.
  var isClosed: Bool { closed.load(ordering: .relaxed) }

  /// The store, if it was not closed.
  var usable: SharedStore {
    get throws(Failure) {
      if isClosed { throw Failure(SB_ERR_CLOSED, "the store was closed") }
      return shared
    }
  }

  /// The hooks of the store that were not freed yet.
  private let hooks = Guarded<[ObjectIdentifier: OpenHook]>([:])

  func add(_ hook: OpenHook) { hooks.withLock { $0[ObjectIdentifier(hook)] = hook } }

  func remove(_ hook: OpenHook) { hooks.withLock { $0[ObjectIdentifier(hook)] = nil } }

  /// Writes the results of hooks that are only noted.
  func deliverResults() throws(Failure) {
    for hook in hooks.withLock({ Array($0.values) }) { try hook.deliver() }
  }

  /// Refuses every use that begins from now on.
  ///
  /// Callers that wait for their turn leave at once.
  func refuseUses() {
    closed.store(true, ordering: .relaxed)
    shared.endWaits()
  }

  /// Closes the file; the caller has waited for all uses that began earlier.
  func close() {
    do throws(Failure) {
      try deliverResults()
    } catch {
      // The entries are handled again, as after the end of a process.
    }
    shared.closeForGood()
  }
}

/// The memory behind the pointer to a breaker; healthy calls read most of it.
@safe struct BreakerHandle {
  private var mark = Self.mark

  /// Tells the permits of this breaker from those of others; never 0.
  private(set) var serial: UInt64
  let breaker: Unmanaged<Breaker>
  let store: Unmanaged<ClosableStore>

  /// Whether it belongs to the process, so that no caller may free it.
  private let isShared: Bool

  private static let mark: UInt64 = 0x7362_2d62_7265_616b

  /// Numbers that are neither pointers nor sizes, so that no other memory is mistaken for a breaker
  /// with the serial of a permit.
  ///
  /// A permit uses some of the bits that are 0 in all of them.
  private static let serials = Atomic<UInt64>(0x7362_0000_0000_0000)

  /// Makes a handle; with the serial of another one, each takes the permits of the other.
  static func make(
    _ breaker: Breaker, of store: ClosableStore, isShared: Bool = false, serial: UInt64? = nil
  ) -> OpaquePointer {
    let serial = serial ?? serials.wrappingAdd(1, ordering: .relaxed).newValue
    let handle = UnsafeMutablePointer<BreakerHandle>.allocate(capacity: 1)
    unsafe handle.initialize(
      to: BreakerHandle(
        serial: serial, breaker: .passRetained(breaker), store: .passRetained(store),
        isShared: isShared))
    return OpaquePointer(handle)
  }

  /// The handle at a pointer of the caller; nil if that is not a breaker.
  @inline(__always)
  static func at(_ pointer: OpaquePointer?) -> UnsafeMutablePointer<BreakerHandle>? {
    guard let handle = unsafe UnsafeMutablePointer<BreakerHandle>(pointer),
      unsafe handle.pointee.mark == mark
    else { return nil }
    return unsafe handle
  }

  /// The breaker at a pointer of the caller, if its store was not closed.
  static func usable(_ pointer: OpaquePointer?) throws(Failure) -> (Breaker, serial: UInt64) {
    guard let handle = unsafe at(ErrorPlace.handle(pointer)) else {
      throw .argument("not a breaker")
    }
    _ = try unsafe handle.pointee.store.takeUnretainedValue().usable
    return unsafe (handle.pointee.breaker.takeUnretainedValue(), handle.pointee.serial)
  }

  /// A handle of the same breaker for calls that claim more or less of its limit.
  static func claiming(
    _ claim: BreakerClaim, of pointer: OpaquePointer?
  ) throws(Failure) -> OpaquePointer {
    guard let handle = unsafe at(ErrorPlace.handle(pointer)) else {
      throw .argument("not a breaker")
    }
    let breaker = unsafe handle.pointee.breaker.takeUnretainedValue()
    let store = unsafe handle.pointee.store.takeUnretainedValue()
    let (serial, isShared) = unsafe (handle.pointee.serial, handle.pointee.isShared)
    func makeClaiming() -> OpaquePointer {
      unsafe make(
        breaker.claiming(units: Int(claim.units), inBackground: claim.isInBackground), of: store,
        isShared: isShared, serial: serial)
    }
    return unsafe isShared
      ? SharedHandles.ofProcess.claiming(claim, of: serial, makeClaiming) : makeClaiming()
  }

  /// A turn of a breaker, whose permit the breaker takes.
  static func turn(_ turn: CallTurn, of pointer: OpaquePointer?) throws(Failure) -> OpenTurn {
    guard let handle = unsafe at(pointer) else { throw .argument("not a breaker") }
    return unsafe OpenTurn(
      turn, of: handle.pointee.store.takeUnretainedValue(), handle.pointee.serial)
  }

  static func free(_ pointer: OpaquePointer?) {
    guard let handle = unsafe at(ErrorPlace.handle(pointer)), unsafe !handle.pointee.isShared
    else { return }
    let (breaker, store) = unsafe (handle.pointee.breaker, handle.pointee.store)
    unsafe handle.pointee.mark = 0
    unsafe handle.pointee.serial = .max
    unsafe handle.deallocate()
    unsafe breaker.release()
    unsafe store.release()
  }
}

/// How much the calls of a handle take of a limit.
struct BreakerClaim: Hashable {
  var units: Int32
  var isInBackground: Bool
}

/// The memory behind the pointer to a store, news, a hook or a turn.
@safe struct Handle {
  private var mark: UInt64
  private let object: Unmanaged<AnyObject>

  /// The kinds of handles, by the marks that tell them apart.
  enum Kind: UInt64 {
    case store = 0x7362_2d73_746f_7265
    case news = 0x7362_2d6e_6577_7300
    case hook = 0x7362_2d68_6f6f_6b00
    case turn = 0x7362_2d74_7572_6e00
  }

  static func make(_ object: some AnyObject, _ kind: Kind) -> OpaquePointer {
    let handle = UnsafeMutablePointer<Handle>.allocate(capacity: 1)
    unsafe handle.initialize(
      to: Handle(mark: kind.rawValue, object: .passRetained(object as AnyObject)))
    return OpaquePointer(handle)
  }

  /// The object of a type at a pointer of the caller, whose kind has only such objects.
  static func object<Object: AnyObject>(
    _ type: Object.Type, at pointer: OpaquePointer?, _ kind: Kind
  ) throws(Failure) -> Object {
    guard let handle = unsafe UnsafeMutablePointer<Handle>(ErrorPlace.handle(pointer)),
      unsafe handle.pointee.mark == kind.rawValue
    else { throw .argument("not a \(kind)") }
    return unsafe unsafeDowncast(handle.pointee.object.takeUnretainedValue(), to: type)
  }

  static func free(_ pointer: OpaquePointer?, _ kind: Kind) {
    guard let handle = unsafe UnsafeMutablePointer<Handle>(ErrorPlace.handle(pointer)),
      unsafe handle.pointee.mark == kind.rawValue
    else { return }
    let object = unsafe handle.pointee.object
    unsafe handle.pointee.mark = 0
    unsafe handle.deallocate()
    unsafe object.release()
  }
}

extension ClosableStore {
  /// The store at a pointer of the caller.
  static func at(_ pointer: OpaquePointer?) throws(Failure) -> ClosableStore {
    try unsafe Handle.object(ClosableStore.self, at: pointer, .store)
  }
}
