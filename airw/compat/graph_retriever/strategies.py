"""The strategies; they are policies of airw."""

from airw.policies import Eager as Eager
from airw.policies import Mmr as Mmr
from airw.policies import NodeTracker as NodeTracker
from airw.policies import Scored as Scored
from airw.policies import Strategy as Strategy
