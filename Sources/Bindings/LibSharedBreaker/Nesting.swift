internal import BreakerStore
package import CSharedBreaker
internal import Glibc
internal import SharedBreaker
internal import Synchronization

/// The rooms of the calls that a thread of a C program is inside of.
///
/// A room that is left here is worth nothing once its call has ended. So it does no harm if another thread
/// ends the call, or if the thread is a copy in the child of a fork.
enum ThreadCalls {
  /// The thread's rooms; nil if the system has no key left.
  private static let key: pthread_key_t? = {
    var key = pthread_key_t()
    let end: @convention(c) (UnsafeMutableRawPointer?) -> Void = { place in
      guard let rooms = unsafe place?.assumingMemoryBound(to: Rooms.self) else { return }
      unsafe rooms.deinitialize(count: 1)
      unsafe rooms.deallocate()
    }
    return unsafe pthread_key_create(&key, end) == 0 ? key : nil
  }()

  /// The rooms of one thread, in memory of their own: Swift would guard each use of an object's.
  private struct Rooms {
    var all: [UInt64] = []
  }

  /// Whether any thread has ever been inside of a call: most programs never ask for it.
  private static let areUsed = Atomic(false)

  /// Makes the key, and the globals that Swift would make at the first call under a limit, because
  /// a child that is forked meanwhile could not.
  static func prepare() {
    if add(0) { remove(0) }
    areUsed.store(false, ordering: .relaxed)
    Breaker.prepareLimitedCalls()
  }

  static var rooms: [UInt64] { unsafe known?.pointee.all ?? [] }

  /// These rooms; nil if there are none, which costs a call nothing.
  @inline(__always) private static var someRooms: [UInt64]? {
    // Unordered, because a thread looks only for its own rooms.
    guard areUsed.load(ordering: .relaxed), let rooms = unsafe known,
      unsafe !rooms.pointee.all.isEmpty
    else { return nil }
    return unsafe rooms.pointee.all
  }

  /// The calls that the thread is inside of, and one that a caller names; 0 names none.
  @inline(__always) static func outers(with room: UInt64) -> OuterCalls {
    OuterCalls(someRooms, and: room)
  }

  /// Puts further calls of the thread inside of a call; false if the thread has no place for it.
  static func add(_ room: UInt64) -> Bool {
    guard let rooms = unsafe known ?? make() else { return false }
    areUsed.store(true, ordering: .relaxed)
    // A room of the same slots belongs to a call that has ended: otherwise this call would have used it.
    if unsafe !rooms.pointee.all.isEmpty {
      unsafe rooms.pointee.all.removeAll { HeldSlot.isOfSameSlots($0, room) }
    }
    unsafe rooms.pointee.all.append(room)
    return true
  }

  static func remove(_ room: UInt64) {
    guard let rooms = unsafe known else { return }
    // Calls usually end in the opposite order, and none of them has its room twice.
    if unsafe rooms.pointee.all.last == room {
      unsafe rooms.pointee.all.removeLast()
    } else {
      unsafe rooms.pointee.all.removeAll { $0 == room }
    }
  }

  @inline(__always) private static var known: UnsafeMutablePointer<Rooms>? {
    guard let key, let place = unsafe pthread_getspecific(key) else { return nil }
    return unsafe place.assumingMemoryBound(to: Rooms.self)
  }

  @inline(never) private static func make() -> UnsafeMutablePointer<Rooms>? {
    guard let key else { return nil }
    let rooms = UnsafeMutablePointer<Rooms>.allocate(capacity: 1)
    unsafe rooms.initialize(to: Rooms())
    if unsafe pthread_setspecific(key, rooms) == 0 { return unsafe rooms }
    unsafe rooms.deinitialize(count: 1)
    unsafe rooms.deallocate()
    return nil
  }
}

@c @implementation
package func sb_permit_room(
  _ permit: UnsafePointer<sb_permit>?, _ room: UnsafeMutablePointer<UInt64>?
) -> CInt {
  if let permit = unsafe permit, let room = unsafe room,
    let taken = unsafe permit.pointee.roomOfLimitedCall
  {
    unsafe room.pointee = taken
    return SB_OK.rawValue
  }
  return unsafe roomWithCare(permit, room)
}

/// By itself, so that the permit of most calls under a limit is not copied.
@inline(never)
private func roomWithCare(
  _ permit: UnsafePointer<sb_permit>?, _ room: UnsafeMutablePointer<UInt64>?
) -> CInt {
  do throws(Failure) {
    guard let room = unsafe room else { throw .argument("there is no place for the room") }
    unsafe room.pointee = 0
    guard let permit = unsafe permit?.pointee else { throw .argument("the permit is NULL") }
    let (number, isOwn) = try permit.room()
    unsafe room.pointee = number
    return (isOwn ? SB_OK : SB_NOTHING).rawValue
  } catch {
    return told(error, to: nil)
  }
}

@c @implementation
package func sb_environment(
  _ store: OpaquePointer?, _ rooms: UnsafePointer<UInt64>?, _ count: Int32,
  _ entry: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(entry, length)
    let store = try unsafe ClosableStore.at(store).usable
    guard count >= 0 else { throw .argument("the count is \(count)") }
    var all = ThreadCalls.rooms
    if count > 0 {
      guard let rooms = unsafe rooms else { throw .argument("the rooms are NULL") }
      for index in 0..<Int(count) { all.append(unsafe rooms[index]) }
    }
    guard let text = store.environmentEntry(ofRooms: all) else { return SB_NOTHING }
    try receiver.take(text)
    return SB_OK
  }
}
