#!/bin/sh
# Program of ipmi_sim's chassis_control: chassis_control.sh STATE-DIRECTORY MC {get|set|check} NAME [VALUE]...
# Keeps the power and the boot device in files and logs every call.
state=$1
shift 2
operation=$1
shift
echo "$operation $*" >>"$state/log"
case $operation in
get)
	for name in "$@"; do
		case $name in
		power) echo "power:$(cat "$state/power" 2>/dev/null || echo 0)" ;;
		boot) echo "boot:$(cat "$state/boot" 2>/dev/null || echo default)" ;;
		*) exit 1 ;;
		esac
	done
	;;
set)
	while [ $# -gt 1 ]; do
		case $1 in
		power | boot) echo "$2" >"$state/$1" ;;
		shutdown) echo 0 >"$state/power" ;;
		reset | identify) ;;
		*) exit 1 ;;
		esac
		shift 2
	done
	;;
check)
	for name in "$@"; do
		case $name in
		power | boot | reset | shutdown | identify) ;;
		*) exit 1 ;;
		esac
	done
	;;
esac
