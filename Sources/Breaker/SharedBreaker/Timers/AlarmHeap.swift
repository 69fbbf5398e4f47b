/// A function to call once, at an instant of the boot clock.
///
/// It is guarded by the lock of its heap.
final class Alarm: @unchecked Sendable {
  let instant: Int64

  /// The heap that the alarm waits in; nil if it is not waiting.
  fileprivate(set) var heap: AlarmHeap?
  fileprivate var place = 0
  private var body: (@Sendable () -> Void)?

  init(at instant: Int64, _ body: @escaping @Sendable () -> Void) {
    self.instant = instant
    self.body = body
  }

  /// Returns the body, which the alarm no longer keeps.
  ///
  /// Call or release it without the lock: it may hold the last reference to objects of the program.
  func take() -> (@Sendable () -> Void)? {
    defer { body = nil }
    return body
  }
}

/// A heap of alarms, the earliest first; adding and removing one takes logarithmic time.
final class AlarmHeap {
  private var alarms: [Alarm] = []

  var first: Alarm? { alarms.first }

  func add(_ alarm: Alarm) {
    alarms.append(alarm)
    alarm.heap = self
    rise(from: alarms.count - 1)
  }

  func remove(_ alarm: Alarm) {
    precondition(alarm.heap === self, "an alarm is removed from the heap that it is in")
    alarm.heap = nil
    let last = alarms.removeLast()
    if last !== alarm {
      put(last, at: alarm.place)
      sink(from: alarm.place)
      rise(from: alarm.place)
    }
    // The memory that many alarms needed at once is freed after the last of them.
    if alarms.isEmpty, alarms.capacity > 64 { alarms = [] }
  }

  private func put(_ alarm: Alarm, at place: Int) {
    alarms[place] = alarm
    alarm.place = place
  }

  private func rise(from start: Int) {
    var place = start
    let alarm = alarms[place]
    while place > 0, case let parent = (place - 1) / 2, alarm.instant < alarms[parent].instant {
      put(alarms[parent], at: place)
      place = parent
    }
    put(alarm, at: place)
  }

  private func sink(from start: Int) {
    var place = start
    let alarm = alarms[place]
    while let child = earlierChild(of: place), alarms[child].instant < alarm.instant {
      put(alarms[child], at: place)
      place = child
    }
    put(alarm, at: place)
  }

  private func earlierChild(of place: Int) -> Int? {
    let left = 2 * place + 1
    guard left < alarms.count else { return nil }
    let right = left + 1
    return right < alarms.count && alarms[right].instant < alarms[left].instant ? right : left
  }
}
