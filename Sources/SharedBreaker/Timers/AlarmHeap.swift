/// Something to be called once, at an instant of the boot clock.
///
/// It is used under the lock that guards its heap.
final class Alarm: @unchecked Sendable {
  let instant: Int64

  /// Where it is waiting; nil if it is not.
  fileprivate(set) var heap: AlarmHeap?
  fileprivate var place = 0
  private var body: (@Sendable () -> Void)?

  init(at instant: Int64, _ body: @escaping @Sendable () -> Void) {
    self.instant = instant
    self.body = body
  }

  /// The body, which is no longer kept.
  ///
  /// Call it or let go of it without the lock: the last reference to the program's objects may go
  /// with it.
  func take() -> (@Sendable () -> Void)? {
    defer { body = nil }
    return body
  }
}

/// Alarms, the earliest of them first; adding and removing one takes the logarithm of their number.
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
    // The room that many alarms took at once is given back after the last of them.
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
